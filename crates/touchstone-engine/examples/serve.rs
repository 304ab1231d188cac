//! Runs an engine on loopback until the process is ended:
//! `cargo run -p touchstone-engine --example serve -- PROFILE PORT`
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example is a program: it reports to its user"
)]

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use touchstone_engine::{EngineConfig, Profile, serve};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "vllm-like".to_owned());
    let Some(profile) = Profile::builtin(&name) else {
        eprintln!("no profile `{name}`; there are: {}", Profile::builtin_names().join(", "));
        return ExitCode::from(2);
    };
    let Ok(port) = args.next().map_or(Ok(0), |port| port.parse()) else {
        eprintln!("the port must be a number up to 65535");
        return ExitCode::from(2);
    };
    let config = EngineConfig { port, ..EngineConfig::new(profile) };
    let ready = |addr| println!("simulated engine `{name}` on http://{addr}");
    match serve(config, ready, &AtomicBool::new(false)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "{error}: {}",
                std::error::Error::source(&error).map_or(String::new(), |e| e.to_string())
            );
            ExitCode::FAILURE
        }
    }
}
