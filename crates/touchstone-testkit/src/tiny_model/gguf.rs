//! Writing GGUF version 3: a header, typed key-value pairs, a table of tensors, and the tensors' little-endian data,
//! each aligned to 32 bytes. Layout: the GGUF specification in the ggml project.

const MAGIC: &[u8; 4] = b"GGUF";
const VERSION: u32 = 3;
const ALIGNMENT: usize = 32;
const TENSOR_F32: u32 = 0;

/// A metadata value, of the types this model needs.
#[derive(Debug)]
pub(super) enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
}

impl Value {
    const I32: u32 = 5;
    const TEXT: u32 = 8;
    const ARRAY: u32 = 9;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::U32(number) => {
                put_u32(out, 4);
                put_u32(out, *number);
            }
            Value::F32(number) => {
                put_u32(out, 6);
                out.extend(number.to_le_bytes());
            }
            Value::Bool(truth) => {
                put_u32(out, 7);
                out.push(u8::from(*truth));
            }
            Value::Text(text) => {
                put_u32(out, Self::TEXT);
                put_text(out, text);
            }
            Value::Texts(texts) => {
                put_u32(out, Self::ARRAY);
                put_u32(out, Self::TEXT);
                put_len(out, texts.len());
                for text in texts {
                    put_text(out, text);
                }
            }
            Value::I32s(numbers) => {
                put_u32(out, Self::ARRAY);
                put_u32(out, Self::I32);
                put_len(out, numbers.len());
                for number in numbers {
                    out.extend(number.to_le_bytes());
                }
            }
        }
    }
}

#[derive(Debug)]
struct Tensor {
    name: String,
    /// Innermost dimension first, as the format wants it.
    shape: Vec<usize>,
    data: Vec<f32>,
}

/// A file in the making; pairs and tensors keep the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Gguf {
    pairs: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

impl Gguf {
    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.pairs.push((key.to_owned(), value));
    }

    /// A matrix in row-major order.
    pub(super) fn add_tensor(&mut self, name: &str, rows: usize, columns: usize, data: Vec<f32>) {
        debug_assert_eq!(rows * columns, data.len());
        self.tensors.push(Tensor { name: name.to_owned(), shape: vec![columns, rows], data });
    }

    pub(super) fn add_vector(&mut self, name: &str, data: Vec<f32>) {
        self.tensors.push(Tensor { name: name.to_owned(), shape: vec![data.len()], data });
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        put_u32(&mut out, VERSION);
        put_len(&mut out, self.tensors.len());
        put_len(&mut out, self.pairs.len());
        for (key, value) in &self.pairs {
            put_text(&mut out, key);
            value.write(&mut out);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            put_text(&mut out, &tensor.name);
            put_u32(&mut out, tensor.shape.len() as u32);
            for &dimension in &tensor.shape {
                put_len(&mut out, dimension);
            }
            put_u32(&mut out, TENSOR_F32);
            put_len(&mut out, offset);
            offset += (tensor.data.len() * size_of::<f32>()).next_multiple_of(ALIGNMENT);
        }
        pad(&mut out);
        for tensor in &self.tensors {
            for number in &tensor.data {
                out.extend(number.to_le_bytes());
            }
            pad(&mut out);
        }
        out
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn put_len(out: &mut Vec<u8>, length: usize) {
    out.extend((length as u64).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend(text.as_bytes());
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_laid_out_as_the_specification_says() {
        let mut file = Gguf::default();
        file.set("k", Value::U32(9));
        file.add_vector("v", vec![1.0]);
        file.add_vector("w", vec![2.0]);
        let bytes = file.to_bytes();
        let mut expected = b"GGUF\x03\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        expected.extend(b"\x01\0\0\0\0\0\0\0k\x04\0\0\0\x09\0\0\0");
        expected.extend(b"\x01\0\0\0\0\0\0\0v\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        expected.extend(b"\x01\0\0\0\0\0\0\0w\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0");
        pad(&mut expected);
        expected.extend(1.0f32.to_le_bytes());
        pad(&mut expected);
        expected.extend(2.0f32.to_le_bytes());
        pad(&mut expected);
        assert_eq!(bytes, expected);
    }
}
