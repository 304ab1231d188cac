//! `touchstone init`: asks the questions of the five dimensions and writes a scenario file.
//!
//! What flags answered is not asked again. Without a terminal nobody can be asked: every open question is listed with the
//! flag that answers it.

mod question;
mod write;

use touchstone_catalog::{Catalog, matching};
use touchstone_model::{DocumentError, Scenario};
use touchstone_report::Lang;

use super::scenario;
use crate::args::InitArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::{self, Ui};
use question::Item;

/// Completes the answers and writes the file.
pub(crate) fn run(args: &InitArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    if args.file.exists() && !args.force {
        return Err(Failure::usage(format!("`{name}` is there already"))
            .hint("choose another name, or replace it with `--force`")
            .into());
    }
    let mut answers = args.clone();
    if ui.interactive() {
        fill(&mut answers, ui.lang(), |prompt| ui.ask(prompt))?;
    }
    let open = question::open(&answers);
    if !open.is_empty() {
        return Err(unanswered(&answers, &open, ui.lang()).into());
    }
    let text = write::scenario(&answers)?;
    verify(&name, &text, &scenario::catalog(&args.out)?)?;
    ui::write_file(&args.file, text.as_bytes())?;
    ui.note(&pick(ui.lang(), format!("wrote {name}"), format!("已写入 {name}")));
    if !ui.quiet() {
        ui.hint(&pick(
            ui.lang(),
            format!("`touchstone check {name}` says what it demands and what will be measured"),
            format!("`touchstone check {name}` 会说明它的要求以及将要测量的内容"),
        ));
    }
    Ok(ExitCode::Done)
}

/// Asks for what is open, each question until its answer can be read.
///
/// # Errors
/// When the input ends, or cannot be read.
fn fill(
    answers: &mut InitArgs,
    lang: Lang,
    mut ask: impl FnMut(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    // The answer about the family opens further questions, so the list is made anew each time.
    while let Some(item) = question::open(answers).first().copied() {
        let text = question::text(item, answers.family, lang);
        let label = pick(lang, "for example", "例如");
        let mut prompt = format!("{text}\n  ({label} {})\n> ", question::example(item, answers.family));
        loop {
            let Some(line) = ask(&prompt)? else {
                let open = question::open(answers);
                return Err(unanswered(answers, &open, lang).into());
            };
            match question::set(answers, item, &line) {
                Ok(()) => break,
                Err(problem) => prompt = format!("{problem}\n> "),
            }
        }
    }
    Ok(())
}

/// The open questions, each with the flag that answers it.
fn unanswered(answers: &InitArgs, open: &[Item], lang: Lang) -> Failure {
    let mut message = match lang {
        Lang::En => format!("{} questions are open", open.len()),
        Lang::Zh => format!("还有 {} 个问题没有回答", open.len()),
    };
    for item in open {
        let text = question::text(*item, answers.family, lang);
        message.push_str(&format!("\n{text}"));
        message.push_str(&format!("\n    {}", question::flag(*item, answers.family)));
    }
    Failure::usage(message).hint(pick(
        lang,
        "answer with these flags, or run the command in a terminal to be asked",
        "用这些参数回答，或在终端中运行该命令以逐项作答",
    ))
}

/// A file that could not be read back, or that the catalog cannot match, is not written.
fn verify(name: &str, text: &str, catalog: &Catalog) -> anyhow::Result<()> {
    // The file does not exist yet, so lines and columns would lead nowhere.
    let without_place = |mut error: DocumentError| {
        for problem in &mut error.problems {
            (problem.line, problem.column) = (0, 0);
        }
        error
    };
    let scenario = Scenario::from_yaml(name, text.as_bytes()).map_err(without_place)?;
    matching::expand(catalog, &scenario).map_err(|error| error.into_document_error(name))?;
    Ok(())
}

fn pick<T>(lang: Lang, en: T, zh: T) -> T {
    match lang {
        Lang::En => en,
        Lang::Zh => zh,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_model::Family;

    /// Answers as somebody types them; the wrong ones first.
    fn dialogue(family: &str, lines: &[&str]) -> (InitArgs, Vec<String>) {
        let mut answers = InitArgs { file: "my scenario.yaml".into(), ..InitArgs::default() };
        let mut typed = std::iter::once(family).chain(lines.iter().copied());
        let mut prompts = Vec::new();
        fill(&mut answers, Lang::En, |prompt| {
            prompts.push(prompt.to_owned());
            Ok(typed.next().map(str::to_owned))
        })
        .unwrap();
        assert_eq!(typed.next(), None, "not every line was read");
        (answers, prompts)
    }

    fn scenario(answers: &InitArgs) -> Scenario {
        let text = write::scenario(answers).unwrap();
        verify("s.yaml", &text, &Catalog::shipped().unwrap())
            .unwrap_or_else(|error| panic!("{error:#}\n{text}"));
        Scenario::from_yaml("s.yaml", text.as_bytes()).unwrap()
    }

    #[test]
    fn a_dialogue_leads_to_a_scenario_for_each_family() {
        let (answers, _) = dialogue(
            "inference",
            &[
                "poisson:10/s",
                "128",
                "64",
                "ttft.p99 <= 400ms; itl.p95 <= 50ms",
                "throughput >= 9/s",
                "none: any fluent answer will do",
                "error_rate <= 1%",
                "2",
                "50%/year",
                "12 months",
            ],
        );
        let read = scenario(&answers);
        assert_eq!((read.name.as_str(), read.family), ("my-scenario", Family::Inference));
        assert_eq!(read.requirements.latency.requirements().len(), 2);
        let (answers, _) = dialogue(
            "queue",
            &[
                "constant:1000/s",
                "128B",
                "end_to_end_latency.p99 <= 50ms",
                "throughput >= 900/s",
                "ordering >= per-key",
                "durability >= D3",
                "1",
                "0%/year",
                "2 years",
            ],
        );
        assert_eq!(scenario(&answers).workload.message_bytes.unwrap().0, 128.0);
        let (answers, _) = dialogue(
            "cache",
            &[
                "closed:8",
                "1000",
                "64",
                "90%",
                "e2e.p99 <= 5ms",
                "throughput >= 900/s",
                "staleness <= 100ms",
                "none: it is a cache",
                "1.5",
                "0%/year",
                "1 years",
            ],
        );
        assert_eq!(scenario(&answers).requirements.scalability.peak_factor, 1.5);
    }

    #[test]
    fn a_wrong_answer_is_explained_and_asked_again() {
        let (_, prompts) = dialogue(
            "database",
            &[
                "cache",
                "fast",
                "closed:8",
                "many",
                "1000",
                "0",
                "64",
                "140%",
                "90%",
                "low",
                "ttft <= 5ms",
                "error_rate <= 1%",
                "e2e.p99 <= 5ms",
                "throughput >= 900/s",
                "staleness <= 100ms",
                "none:",
                "replay >= time",
                "none: it is a cache",
                "0.5",
                "1",
                "50%",
                "0%/year",
                "soon",
                "1 years",
            ],
        );
        let all = prompts.join("\n");
        for expected in [
            "expected inference, queue or cache",
            "unknown arrival process",
            "expected a whole number",
            "out of range",
            "expected SUBJECT",
            "which statistic",
            "belongs to reliability",
            "needs a reason",
            "at least 1",
            "a growth such as",
            "means nothing for cache systems",
            "is not a number",
        ] {
            assert!(all.contains(expected), "{expected} is missing in {all}");
        }
    }

    #[test]
    fn an_end_of_input_lists_what_is_open() {
        let mut answers = InitArgs { file: "s.yaml".into(), ..InitArgs::default() };
        let error = fill(&mut answers, Lang::En, |_| Ok(None)).unwrap_err().to_string();
        assert!(
            error.contains("--family") && error.contains("--latency") && error.contains("--horizon"),
            "{error}"
        );
    }
}
