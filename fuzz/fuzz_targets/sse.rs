#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| touchstone_fuzz::sse(data));
