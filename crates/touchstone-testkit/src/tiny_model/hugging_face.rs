//! The model as a folder in Hugging Face's layout, for engines that read no GGUF.
//!
//! Same weights, same vocabulary: at temperature 0 two right engines give the same text for the same prompt.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    CHAT_TEMPLATE, CONTEXT, FEED_FORWARD, FORMAT, HEAD, HEADS, HIDDEN, KEY_VALUE_HEADS, LAYERS, SEED, Tensor,
    TinyModel, VOCABULARY, tokenizer,
};

impl TinyModel {
    /// The folder of the model with [`SEED`] under `dir`, written there first if it is missing. Several processes may
    /// ask at once: each writes a folder of its own and renames it into place.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn cached_folder(dir: &Path) -> Result<PathBuf> {
        let path = dir.join(format!("tiny-f{FORMAT}-s{SEED}"));
        if path.join("model.safetensors").is_file() {
            return Ok(path);
        }
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let part = tempfile::tempdir_in(dir)?;
        TinyModel::new(SEED).write_folder(part.path())?;
        let part = part.keep();
        if let Err(error) = fs::rename(&part, &path) {
            fs::remove_dir_all(&part)?;
            // Another process was quicker, which is as good.
            if !path.join("model.safetensors").is_file() {
                return Err(error).with_context(|| format!("write {}", path.display()));
            }
        }
        Ok(path)
    }

    /// Writes configuration, tokenizer and weights into `dir`, which exists.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_folder(&self, dir: &Path) -> Result<()> {
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
        };
        write("config.json", config().to_string().as_bytes())?;
        write("generation_config.json", ids().to_string().as_bytes())?;
        write("tokenizer.json", self.tokenizer_json().as_bytes())?;
        write("tokenizer_config.json", tokenizer_config().to_string().as_bytes())?;
        // Last: its presence says that the folder is whole.
        write("model.safetensors", &self.to_safetensors())
    }

    /// The tokenizer as the `tokenizer.json` that the `tokenizers` library reads.
    #[must_use]
    pub fn tokenizer_json(&self) -> String {
        let tokens = self.tokenizer.tokens();
        let vocabulary: serde_json::Map<String, Value> =
            tokens.iter().enumerate().map(|(id, text)| (text.clone(), json!(id))).collect();
        let specials: Vec<Value> = tokens
            .iter()
            .take(tokenizer::SPECIALS.len())
            .enumerate()
            .map(|(id, text)| {
                json!({
                    "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true,
                })
            })
            .collect();
        let bos = &tokens[tokenizer::BOS as usize];
        let special = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": specials,
            "normalizer": null,
            "pre_tokenizer": {
                "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [special(bos), sequence("A")],
                "pair": [special(bos), sequence("A"), sequence("B")],
                "special_tokens": {bos: {"id": bos, "ids": [tokenizer::BOS], "tokens": [bos]}},
            },
            "decoder": {
                "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
            },
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "vocab": vocabulary, "merges": self.tokenizer.merges(),
            },
        })
        .to_string()
    }

    /// The weights in the safetensors format: the length of a JSON header, the header, the numbers.
    fn to_safetensors(&self) -> Vec<u8> {
        let tensors: Vec<Tensor> = self.tensors().into_iter().map(renamed).collect();
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        let mut at = 0;
        for tensor in &tensors {
            let bytes = tensor.numbers.len() * 4;
            let shape = match tensor.rows {
                None => json!([tensor.columns]),
                Some(rows) => json!([rows, tensor.columns]),
            };
            let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [at, at + bytes]});
            header.insert(tensor.name.clone(), entry);
            at += bytes;
        }
        let mut text = Value::Object(header).to_string();
        // Readers map the numbers in place, so they begin at a multiple of eight.
        text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
        let mut file = (text.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(text.as_bytes());
        for number in tensors.iter().flat_map(|tensor| &tensor.numbers) {
            file.extend_from_slice(&number.to_le_bytes());
        }
        file
    }
}

fn ids() -> Value {
    json!({
        "bos_token_id": tokenizer::BOS,
        "eos_token_id": tokenizer::EOS,
        "pad_token_id": tokenizer::EOS,
    })
}

fn config() -> Value {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": false,
        "torch_dtype": "float32",
        "attention_bias": false,
    });
    if let (Some(config), Value::Object(ids)) = (config.as_object_mut(), ids()) {
        config.extend(ids);
    }
    config
}

fn tokenizer_config() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "</s>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": false,
        "chat_template": CHAT_TEMPLATE,
    })
}

/// A tensor under its name in this layout. Rows of queries and keys are in another order here: GGUF has the two
/// halves of a rotary pair next to each other, this layout has all first halves before all second ones.
fn renamed(mut tensor: Tensor) -> Tensor {
    if tensor.name.contains("attn_q") || tensor.name.contains("attn_k") {
        tensor.numbers = unpaired(&tensor.numbers, tensor.columns);
    }
    let name = tensor.name.trim_end_matches(".weight");
    let name = match name {
        "token_embd" => "model.embed_tokens".to_owned(),
        "output_norm" => "model.norm".to_owned(),
        "output" => "lm_head".to_owned(),
        _ => {
            let mut parts = name.split('.').skip(1);
            let (layer, part) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let part = match part {
                "attn_q" => "self_attn.q_proj",
                "attn_k" => "self_attn.k_proj",
                "attn_v" => "self_attn.v_proj",
                "attn_output" => "self_attn.o_proj",
                "ffn_gate" => "mlp.gate_proj",
                "ffn_up" => "mlp.up_proj",
                "ffn_down" => "mlp.down_proj",
                "attn_norm" => "input_layernorm",
                _ => "post_attention_layernorm",
            };
            format!("model.layers.{layer}.{part}")
        }
    };
    tensor.name = format!("{name}.weight");
    tensor
}

fn unpaired(numbers: &[f32], columns: usize) -> Vec<f32> {
    let rows = numbers.len() / columns;
    let mut out = Vec::with_capacity(numbers.len());
    for row in 0..rows {
        let (head, within) = (row / HEAD, row % HEAD);
        let (half, at) = (within / (HEAD / 2), within % (HEAD / 2));
        let from = head * HEAD + at * 2 + half;
        out.extend_from_slice(&numbers[from * columns..(from + 1) * columns]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotary_pairs_are_put_apart_and_nothing_is_lost() {
        let rows: Vec<f32> = (0..2 * HEAD).map(|row| row as f32).collect();
        let out = unpaired(&rows, 1);
        assert_eq!(&out[..3], [0.0, 2.0, 4.0]);
        assert_eq!(&out[HEAD / 2..HEAD / 2 + 3], [1.0, 3.0, 5.0]);
        assert_eq!(out[HEAD], HEAD as f32);
        let mut sorted = out.clone();
        sorted.sort_by(f32::total_cmp);
        assert_eq!(sorted, rows);
    }

    #[test]
    fn the_folder_is_whole_and_its_header_fits_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TinyModel::cached_folder(dir.path()).unwrap();
        assert_eq!(TinyModel::cached_folder(dir.path()).unwrap(), folder);
        let tokenizer: Value =
            serde_json::from_slice(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
        assert_eq!(tokenizer["model"]["vocab"].as_object().unwrap().len(), VOCABULARY);
        let bytes = fs::read(folder.join("model.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let header = header.as_object().unwrap();
        let end = header.values().filter_map(|entry| entry["data_offsets"][1].as_u64()).max().unwrap();
        assert_eq!(8 + length + end as usize, bytes.len());
        assert_eq!(length % 8, 0);
        for name in ["model.embed_tokens.weight", "lm_head.weight", "model.layers.1.self_attn.q_proj.weight"]
        {
            assert!(header.contains_key(name), "{name}");
        }
        assert_eq!(header.len(), 1 + 3 + LAYERS * 9);
    }
}
