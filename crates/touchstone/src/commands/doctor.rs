//! `touchstone doctor`: how well this machine can measure, and what to change.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use serde::Serialize;
use touchstone_net::{RecvBuf, StampSource, enable_receive_stamps, timer_precision};
use touchstone_report::text::{Align, Table, wrap};
use touchstone_report::{Lang, Style};
use touchstone_telemetry::doctor::{Diagnosis, Measured, Status, diagnose};
use touchstone_telemetry::{Fingerprint, fingerprint};

use crate::args::DoctorArgs;
use crate::exit::ExitCode;
use crate::ui::Ui;

/// The format of `doctor --json`.
const FORMAT: &str = "touchstone.doctor/1";
/// Waits to measure the timer with: about 0.6 s.
const TIMER_SAMPLES: usize = 1000;

/// Measures, judges and prints. What is wrong with the machine is the answer, not a failure: the code is 0.
pub(crate) fn run(args: &DoctorArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    ui.note(match ui.lang() {
        Lang::En => "measuring the timer for about a second",
        Lang::Zh => "正在测量定时器，约需一秒",
    });
    let machine = fingerprint(env!("CARGO_PKG_VERSION"));
    let measured = Measured {
        // A machine that cannot be measured is reported as such.
        timer_lateness_ns: timer_precision(TIMER_SAMPLES).unwrap_or_default(),
        kernel_stamps: kernel_stamps().ok(),
    };
    let diagnosis = diagnose(&machine, &measured);
    if args.json {
        let report =
            Report { format: FORMAT, worst: diagnosis.worst(), checks: &diagnosis.checks, machine: &machine };
        ui.json(&report)?;
    } else {
        ui.data(&text(&diagnosis, &ui.style()))?;
    }
    Ok(ExitCode::Done)
}

#[derive(Serialize)]
struct Report<'a> {
    format: &'static str,
    worst: Status,
    checks: &'a [touchstone_telemetry::doctor::Check],
    machine: &'a Fingerprint,
}

/// Whether the kernel stamps what is received on loopback. Stamping starts shortly after it was first asked for, so a
/// few tries are made.
fn kernel_stamps() -> io::Result<bool> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    if !enable_receive_stamps(&receiver) {
        return Ok(false);
    }
    let mut buffers = RecvBuf::new();
    for _ in 0..50 {
        sender.write_all(b"x")?;
        if buffers.recv(&receiver, &mut [0; 16])?.source == StampSource::Kernel {
            return Ok(true);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(false)
}

fn word(status: Status, lang: Lang) -> &'static str {
    match (status, lang) {
        (Status::Ok, Lang::En) => "ok",
        (Status::Unknown, Lang::En) => "unknown",
        (Status::Warn, Lang::En) => "warning",
        (Status::Fail, Lang::En) => "bad",
        (Status::Ok, Lang::Zh) => "正常",
        (Status::Unknown, Lang::Zh) => "未知",
        (Status::Warn, Lang::Zh) => "警告",
        (Status::Fail, Lang::Zh) => "不合格",
    }
}

fn text(diagnosis: &Diagnosis, style: &Style) -> String {
    let lang = style.lang;
    let heads = match lang {
        Lang::En => ["check", "state", "found"],
        Lang::Zh => ["检查项", "状态", "结果"],
    };
    let mut table = Table::new(&heads.map(|head| (head, Align::Left)));
    for check in &diagnosis.checks {
        table.row(vec![check.id.to_owned(), word(check.status, lang).to_owned(), check.measured.clone()]);
    }
    let mut out = table.lines("").join("\n") + "\n";
    for check in &diagnosis.checks {
        let Some(advice) = &check.advice else { continue };
        out.push_str(&format!("\n{}: {}\n", check.id, check.why));
        let label = match lang {
            Lang::En => "advice: ",
            Lang::Zh => "建议：",
        };
        for line in wrap(&format!("{label}{advice}"), style.width.saturating_sub(2)) {
            out.push_str(&format!("  {line}\n"));
        }
    }
    let verdict = match (diagnosis.worst(), lang) {
        (Status::Ok | Status::Unknown, Lang::En) => "this machine is fit to generate load",
        (Status::Warn, Lang::En) => {
            "this machine can generate load; figures may suffer from the warnings above"
        }
        (Status::Fail, Lang::En) => {
            "this machine is not fit to generate load until the bad checks are put right"
        }
        (Status::Ok | Status::Unknown, Lang::Zh) => "这台机器适合产生负载",
        (Status::Warn, Lang::Zh) => "这台机器可以产生负载；上述警告可能影响数据",
        (Status::Fail, Lang::Zh) => "在解决不合格的检查项之前，这台机器不适合产生负载",
    };
    out + "\n" + verdict + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_telemetry::doctor::Check;

    fn check(id: &'static str, status: Status, advice: Option<&str>) -> Check {
        Check { id, status, measured: "2".to_owned(), why: "it matters", advice: advice.map(str::to_owned) }
    }

    #[test]
    fn what_to_change_stands_below_the_table() {
        let checks =
            vec![check("cores", Status::Ok, None), check("governor", Status::Warn, Some("change it"))];
        let out = text(&Diagnosis { checks }, &Style::default());
        insta::assert_snapshot!(out, @"
        check     state    found
        cores     ok       2
        governor  warning  2

        governor: it matters
          advice: change it

        this machine can generate load; figures may suffer from the warnings above
        ");
    }
}
