//! Bodies that come compressed, decoded as they come.
//!
//! Nothing is asked to be compressed, but a server or a proxy before it may do so. What one read brings out is bounded:
//! the input is taken in small pieces, and the output of each is handed on before the next.

use std::io::Write;

use flate2::write::{GzDecoder, ZlibDecoder};

/// Bytes of input that are decoded at once. Deflate expands at most about 1030 times, so 8 MiB come out of this.
const PIECE: usize = 8 * 1024;

/// The body is not what its coding says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the compressed body is malformed: {0}")]
pub(crate) struct Malformed(String);

/// A decoder for one body.
#[derive(Debug)]
pub(crate) enum Inflate {
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Deflate(Box<ZlibDecoder<Vec<u8>>>),
}

impl Inflate {
    /// The decoder of a `content-encoding`; none for one that is not known.
    pub(crate) fn new(encoding: &str) -> Option<Self> {
        match encoding {
            "gzip" | "x-gzip" => Some(Inflate::Gzip(Box::new(GzDecoder::new(Vec::new())))),
            "deflate" => Some(Inflate::Deflate(Box::new(ZlibDecoder::new(Vec::new())))),
            _ => None,
        }
    }

    /// Decodes bytes and hands on what they bring out.
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
        for piece in bytes.chunks(PIECE) {
            let written = match self {
                Inflate::Gzip(decoder) => decode(decoder, piece),
                Inflate::Deflate(decoder) => decode(decoder, piece),
            };
            // What was decoded before the fault still counts.
            let out = match self {
                Inflate::Gzip(decoder) => decoder.get_mut(),
                Inflate::Deflate(decoder) => decoder.get_mut(),
            };
            let mut ready = std::mem::take(out);
            if !ready.is_empty() {
                each(&ready);
            }
            // The memory is used again, unless a bomb made it large.
            if ready.capacity() <= 16 * PIECE {
                ready.clear();
                *out = ready;
            }
            written.map_err(|error| Malformed(error.to_string()))?;
        }
        Ok(())
    }

    /// The body has ended: says whether all of it was there.
    pub(crate) fn finish(&mut self) -> Result<(), Malformed> {
        let finished = match self {
            Inflate::Gzip(decoder) => decoder.try_finish(),
            Inflate::Deflate(decoder) => decoder.try_finish(),
        };
        finished.map_err(|error| Malformed(error.to_string()))
    }
}

/// Decodes a piece into the decoder's own output. What came out before a fault is brought out too, so that it does not
/// matter how the bytes were cut into reads: a further write begins with handing over what is ready.
fn decode(decoder: &mut impl Write, piece: &[u8]) -> std::io::Result<()> {
    match decoder.write_all(piece) {
        Ok(()) => decoder.flush(),
        Err(error) => {
            decoder.write_all(&[0]).ok();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn decoded(encoding: &str, bytes: &[u8], step: usize) -> Result<Vec<u8>, Malformed> {
        let mut inflate = Inflate::new(encoding).unwrap();
        let mut out = Vec::new();
        for piece in bytes.chunks(step) {
            inflate.push(piece, &mut |ready| out.extend_from_slice(ready))?;
        }
        Ok(out)
    }

    #[test]
    fn what_was_flushed_comes_out_at_once_and_in_any_pieces() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(b"data: one\n\n").unwrap();
        gzip.flush().unwrap();
        let first = gzip.get_ref().len();
        gzip.write_all(b"data: two\n\n").unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(b"data: one\n\ndata: two\n\n").unwrap();
        let zlib = zlib.finish().unwrap();
        assert_eq!(decoded("gzip", &gzip[..first], first).unwrap(), b"data: one\n\n");
        for step in 1..=gzip.len() {
            assert_eq!(decoded("gzip", &gzip, step).unwrap(), b"data: one\n\ndata: two\n\n");
            assert_eq!(decoded("deflate", &zlib, step).unwrap(), b"data: one\n\ndata: two\n\n");
        }
    }

    #[test]
    fn a_cut_body_is_not_whole() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(b"data: one\n\n").unwrap();
        let gzip = gzip.finish().unwrap();
        for length in [0, 5, gzip.len() - 1, gzip.len()] {
            let mut inflate = Inflate::new("gzip").unwrap();
            inflate.push(&gzip[..length], &mut |_| ()).unwrap();
            assert_eq!(inflate.finish().is_ok(), length == gzip.len(), "{length}");
        }
    }

    #[test]
    fn a_fault_brings_out_the_same_wherever_the_bytes_are_cut() {
        let text = b"data: {\"choices\":[{\"text\":\"some words\"}]}\n\n".repeat(4);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        for at in 0..gzip.len() * 8 {
            let mut hurt = gzip.clone();
            hurt[at / 8] ^= 1 << (at % 8);
            let all = |step| {
                let mut inflate = Inflate::new("gzip").unwrap();
                let mut out = Vec::new();
                let pushed = hurt.chunks(step).try_for_each(|piece| {
                    inflate.push(piece, &mut |ready| out.extend_from_slice(ready)).map_err(|_| ())
                });
                (out, pushed.is_err() || inflate.finish().is_err())
            };
            assert_eq!(all(1), all(hurt.len()), "bit {at}");
        }
    }

    #[test]
    fn what_is_not_compressed_is_refused_and_other_codings_are_unknown() {
        assert!(decoded("gzip", b"data: one\n\n", 100).is_err());
        assert!(decoded("deflate", b"\xff\xff\xff\xff", 1).is_err());
        assert!(Inflate::new("br").is_none() && Inflate::new("zstd").is_none());
    }

    #[test]
    fn a_bomb_comes_out_in_bounded_pieces() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![0; 64 << 20]).unwrap();
        let bomb = gzip.finish().unwrap();
        let mut inflate = Inflate::new("gzip").unwrap();
        let (mut most, mut all) = (0, 0);
        inflate.push(&bomb, &mut |ready| (most, all) = (most.max(ready.len()), all + ready.len())).unwrap();
        assert_eq!(all, 64 << 20);
        assert!(most <= 1100 * PIECE, "{most}");
    }
}
