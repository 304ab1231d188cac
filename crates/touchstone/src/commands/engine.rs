//! `touchstone engine`: the embedded engine, simulated and saying so.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use touchstone_engine::{EngineConfig, Profile, serve};

use crate::args::EngineArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Serves until Ctrl-C, or lists the profiles.
pub(crate) fn run(args: &EngineArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    match args {
        EngineArgs::ListProfiles => {
            let profiles = Profile::builtin_names().iter().filter_map(|name| Profile::builtin(name));
            let lines: Vec<String> =
                profiles.map(|profile| format!("{:<16} {}\n", profile.name, profile.about)).collect();
            ui.data(&lines.concat())?;
            Ok(ExitCode::Done)
        }
        EngineArgs::Serve { config, json, until_stdin_closes } => {
            serve_engine(config, *json, *until_stdin_closes, ui)
        }
    }
}

fn serve_engine(
    config: &EngineConfig,
    json: bool,
    until_stdin_closes: bool,
    ui: &Ui,
) -> anyhow::Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let handled = Arc::clone(&stop);
    // An engine that was launched by a program ends with it: an interrupt is for the program, which drains first.
    ctrlc::set_handler(move || handled.store(!until_stdin_closes, Ordering::Relaxed))
        .map_err(|error| Failure::usage("cannot watch for Ctrl-C").because(error))?;
    if until_stdin_closes {
        let closed = Arc::clone(&stop);
        std::thread::spawn(move || {
            // Whatever comes is thrown away; the end of it, or an error, is what counts.
            let mut buffer = [0; 256];
            while matches!(std::io::stdin().lock().read(&mut buffer), Ok(1..)) {}
            closed.store(true, Ordering::Relaxed);
        });
    }
    let profile = config.profile.name.clone();
    let model = config.model.clone();
    let mut announced = Ok(());
    let stats = serve(
        config.clone(),
        |address| {
            announced = if json {
                let ready = serde_json::json!({ "address": address.to_string(), "profile": profile, "model": model, "simulated": true });
                ui.data(&format!("{ready}\n"))
            } else {
                ui.note(&format!(
                    "SIMULATED engine, profile {profile}, model {model}, on http://{address} (no figure from it is a measurement of a product)"
                ));
                ui.note(&format!("load it with: touchstone bench --target openai-chat=http://{address} --arrival poisson:10/s"));
                Ok(())
            };
        },
        &stop,
    )?;
    announced?;
    if !json {
        ui.note(&format!("simulated: {} requests, {} completed", stats.requests, stats.completed));
    }
    Ok(ExitCode::Done)
}
