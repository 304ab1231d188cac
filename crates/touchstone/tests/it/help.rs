//! Help, version, usage errors, scripts for shells, and the rules of both streams.

use crate::{context, run};

#[test]
fn help_is_data() {
    let done = run(&["--help"]);
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = done.stdout.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_command_has_help() {
    for command in [
        "demo",
        "init",
        "check",
        "match",
        "run",
        "decide",
        "explain",
        "bench",
        "search",
        "campaign",
        "compare",
        "rerun",
        "engine",
        "runs",
        "doctor",
        "completions",
        "man",
    ] {
        let done = run(&[command, "--help"]);
        assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""), "{command}");
        assert!(done.stdout.contains(&format!("Usage: touchstone {command}")), "{command}: {}", done.stdout);
    }
}

#[test]
fn version_names_the_date_of_the_catalog() {
    for flag in ["--version", "-V"] {
        let done = run(&[flag]);
        assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
        let text = done
            .stdout
            .strip_prefix(concat!("touchstone ", env!("CARGO_PKG_VERSION"), " (catalog "))
            .unwrap();
        let date = text.strip_suffix(")\n").unwrap();
        assert!(date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok()), "{date}");
    }
}

#[test]
fn usage_errors_have_code_2_and_leave_standard_output_empty() {
    for arguments in [
        &[][..],
        &["nonsense"],
        &["check"],
        &["check", "a.yaml", "--nonsense"],
        &["bench"],
        &["bench", "--target", "resp=127.0.0.1", "--arrival", "fast"],
        &["bench", "--target", "resp=192.0.2.1"],
        &["runs"],
        &["engine", "--profile", "nobody"],
        &["completions", "oil"],
    ] {
        let done = run(arguments);
        assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", done.stderr);
        assert!(!done.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_target_elsewhere_gets_a_hint() {
    let done = run(&["bench", "--target", "resp=192.0.2.1"]);
    insta::assert_snapshot!(done.stderr, @"
    error: `192.0.2.1:6379` is not on this machine, so its load must be stated; missing: `--arrival` and `--duration` (or `--requests`)
    hint: say how much load the target may get and for how long, as in `--arrival poisson:5/s --duration 10s`
    ");
}

#[test]
fn nothing_is_coloured_when_piped() {
    // A terminal is claimed as strongly as the environment can.
    let context = context().variable("TERM", "xterm-256color").variable("COLORTERM", "truecolor");
    context.write("s.yaml", include_str!("../data/chat.yaml")).unwrap();
    for arguments in [
        &["--help"][..],
        &["nonsense"],
        &["check", "s.yaml"],
        &["check", "none.yaml"],
        &["doctor"],
        &["doctor", "--json"],
        &["init", "new.yaml"],
    ] {
        let done = context.run(arguments).unwrap();
        let text = done.stdout + &done.stderr;
        assert!(!text.is_empty() && !text.contains('\u{1b}'), "{arguments:?}: {text:?}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    use std::process::{Command, Stdio};
    for arguments in [&["--help"][..], &["completions", "bash"], &["man"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), stderr.as_ref()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = run(&["completions", shell]);
        assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["bench", "explain", "in-flight"] {
            assert!(done.stdout.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn the_manual_page_has_every_command() {
    let done = run(&["man"]);
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.contains(".TH touchstone 1"), "{}", &done.stdout[..200]);
    for section in ["TOUCHSTONE BENCH", "TOUCHSTONE RUNS VERIFY", "TOUCHSTONE CHECK"] {
        assert!(done.stdout.contains(&format!(".SH \"{section}\"")), "{section}");
    }
}

#[test]
fn doctor_prints_one_json_document() {
    let done = run(&["doctor", "--json", "--quiet"]);
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(value["format"], "touchstone.doctor/1");
    let checks = value["checks"].as_array().unwrap();
    let timer = checks.iter().find(|check| check["id"] == "timer-precision").unwrap();
    assert!(timer["measured"].as_str().unwrap().contains("(n 1000)"), "{timer}");
    assert!(["ok", "warn", "fail"].contains(&timer["status"].as_str().unwrap()));
    assert!(checks.iter().all(|check| check["why"].as_str().is_some_and(|why| !why.is_empty())));
}

#[test]
fn doctor_says_why_and_what_to_do() {
    let done = run(&["doctor", "--lang", "zh"]);
    assert_eq!(done.code(), Some(0));
    assert!(done.stdout.contains("检查项") && done.stdout.contains("timer-precision"), "{}", done.stdout);
}
