//! Several classes of load on one target at once.

use touchstone_model::comparison::RunSet;
use touchstone_model::run::Outcome;
use touchstone_model::{MetricId, RunDocument};

use crate::harness::{Engine, context, run};

const CHAT: &str = "name=chat,arrival=constant:20/s,input=6,output=3,slo=ttft.p50<=5s";
const BATCH: &str = "name=batch,arrival=constant:4/s,input=9,output=5,stream=no,slo=e2e.p50<=1us";
const TIMES: &str = "--duration 1500ms --warm-up 500ms --seed 5";

fn set(text: &str) -> RunSet {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn parameter<'a>(run: &'a RunDocument, name: &str) -> &'a serde_json::Value {
    &run.workload.parameters[name]
}

#[test]
fn each_class_has_its_own_load_limits_and_run() {
    let engine = Engine::start("flat", "");
    let context = context();
    let line = format!("bench --target {} {TIMES} --class {CHAT} --class {BATCH} --json -", engine.chat());
    let done = run(&context, &line);
    // The limit of the batch class is broken, that of the chat class holds.
    assert_eq!(done.code(), Some(3), "{}", done.snapshot());
    let made = set(&done.stdout);
    let [chat, batch] = &made.runs[..] else { panic!("{} runs", made.runs.len()) };
    assert_eq!((parameter(chat, "class"), parameter(batch, "class")), (&"chat".into(), &"batch".into()));
    assert_eq!(parameter(chat, "mix"), parameter(batch, "mix"));
    assert_eq!(
        parameter(chat, "mix_classes"),
        &serde_json::json!(["chat constant:20/s", "batch constant:4/s"])
    );
    assert_eq!((chat.counts.intended, batch.counts.intended), (30, 6));
    assert_eq!((chat.counts.completed, batch.counts.completed), (30, 6), "{:?}", batch.errors);
    assert_eq!((chat.counts.output_tokens, batch.counts.output_tokens), (Some(90), Some(30)));
    assert!(chat.metrics.contains_key(&MetricId::Icl) && !batch.metrics.contains_key(&MetricId::Icl));
    assert_eq!((chat.slo.len(), batch.slo.len()), (1, 1));
    assert_eq!((chat.slo[0].outcome, batch.slo[0].outcome), (Outcome::Pass, Outcome::Fail));
    assert_ne!(chat.workload.seed, batch.workload.seed);
    // One was under load while the other was.
    assert!(chat.phases.measured_from_ns < batch.phases.measured_to_ns);
    assert!(batch.phases.measured_from_ns < chat.phases.measured_to_ns);
    for one in &made.runs {
        let verified = run(&context, &format!("runs verify {}", one.run));
        assert_eq!(verified.code(), Some(0), "{}", verified.snapshot());
    }
    for told in ["chat", "batch", "all", "24"] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }

    // A class alone has the schedule and the prompts that it has in company, and a repeat of one is the mix again.
    let alone = run(&context, &format!("bench --target {} {TIMES} --class {CHAT} --json -", engine.chat()));
    let alone = set(&alone.stdout);
    assert_eq!(alone.runs[0].workload.schedule_digest, chat.workload.schedule_digest);
    assert_eq!(alone.runs[0].workload.seed, chat.workload.seed);
    let again = run(&context, &format!("rerun {} --json", batch.run));
    let again = set(&again.stdout);
    assert_eq!(again.runs.len(), 2, "the whole mix");
    assert_eq!(again.runs[1].workload.schedule_digest, batch.workload.schedule_digest);
}

#[test]
fn what_contradicts_the_classes_is_refused() {
    let context = context();
    for (flags, told) in [
        (format!("--class {CHAT} --arrival poisson:1/s"), "`--arrival` does not go with `--class`"),
        (format!("--class {CHAT} --slo e2e.p50<=1s"), "`--slo` does not go with `--class`"),
        (format!("--class {CHAT} --repeats 2"), "`--repeats` does not go with `--class`"),
        (format!("--class {CHAT} --class {CHAT}"), "two classes are called `chat`"),
        ("--class name=a,arrival=poisson:1/s,stream=no,slo=ttft.p50<=1s".to_owned(), "has no `ttft`"),
        ("--class name=a".to_owned(), "no `arrival`"),
    ] {
        let done = run(&context, &format!("bench --target openai-chat=http://127.0.0.1:9 {flags}"));
        assert_eq!(done.code(), Some(2), "{}", done.snapshot());
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
}
