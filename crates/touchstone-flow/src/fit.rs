//! Fitting prompts to the target's own count of tokens.
//!
//! Two requests with prompts of different lengths are sent before the run. What the server counts for them gives the tokens
//! of a word and those of its chat template; prompts are then made so that the server's count is the one asked for.

use std::cell::RefCell;
use std::time::Duration;

use touchstone_load::{Driver, Op, OpToken, SessionEvent};
use touchstone_model::{Family, Length};
use touchstone_net::Endpoint;
use touchstone_workload::requests::Wording;

use crate::bench::{BenchError, BenchRequest, Observer};
use crate::driver::driver;
use crate::probe;
use crate::prompts::{CachePolicy, Probed};

/// Words of the two prompts.
const WORDS: [u32; 2] = [32, 160];
/// A word of the list has about one token; more than this is another kind of tokenizer, less is none.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.5..=8.0;

/// The request with the wording that the target's counts gave; none when no fit was asked for. With a tokenizer every word
/// is one token, so there the counts have to differ by a constant alone, or the run is refused.
pub(crate) fn fitted(
    request: &BenchRequest,
    model: Option<&str>,
    endpoint: &Endpoint,
    patience: Duration,
    observer: &mut dyn Observer,
) -> Result<Option<BenchRequest>, BenchError> {
    let exact = request.payload.tokenizer.is_some();
    if !(request.payload.fit_tokens || exact) || request.target.protocol.family() != Family::Inference {
        return Ok(None);
    }
    // A model may need its time for a first token, whatever opening a connection may take.
    let patience = patience.max(Duration::from_nanos(request.plan.timeouts.first_ns));
    let mut counts = [0; 2];
    for (words, count) in WORDS.iter().zip(&mut counts) {
        *count = counted(request, model, endpoint, patience, *words)?;
    }
    let probed = Probed { words: WORDS, counted: counts };
    let wording =
        if exact { probed.exact().map_err(|why| BenchError::Fit { why })? } else { probed.wording() };
    let Wording { fixed_tokens, tokens_per_word } = wording;
    if !PLAUSIBLE.contains(&tokens_per_word) {
        return Err(BenchError::Fit {
            why: format!(
                "it counts {} tokens in {} words and {} in {}",
                counts[0], WORDS[0], counts[1], WORDS[1]
            ),
        });
    }
    observer.note(&format!(
        "the target counts {tokens_per_word:.3} tokens a word and {fixed_tokens:.1} beside them; prompts are made to fit"
    ));
    let mut fitted = request.clone();
    fitted.payload.wording = wording;
    fitted.payload.probed = Some(probed);
    let least = (fixed_tokens + tokens_per_word).ceil().max(1.0) as u32;
    if let (None, Some(asked)) = (&request.payload.trace, request.payload.input_tokens.fixed())
        && asked < least
    {
        return Err(BenchError::Fit {
            why: format!(
                "it counts {fixed_tokens:.0} tokens beside the words of every prompt, so {least} are the fewest; {asked} are asked for"
            ),
        });
    }
    Ok(Some(fitted))
}

/// The tokens that the target counts in a prompt of so many words.
fn counted(
    request: &BenchRequest,
    model: Option<&str>,
    endpoint: &Endpoint,
    patience: Duration,
    words: u32,
) -> Result<u32, BenchError> {
    let mut asked = request.clone();
    asked.payload.trace = None;
    asked.payload.prefix = None;
    asked.payload.cache = CachePolicy::AsIs;
    asked.payload.wording = Wording::default();
    asked.payload.input_tokens = Length::Fixed(words);
    asked.payload.output_tokens = Length::Fixed(1);
    // Another beginning than any prompt of the run.
    asked.plan.seed ^= 0x5eed_f17e_d000_0000;
    let driver = driver(&asked, "fit", model)?;
    match exchange(&*driver, endpoint, patience, u64::from(words)) {
        Ok(Some(tokens)) => Ok(tokens),
        Ok(None) => Err(BenchError::Fit { why: "it tells no count of input tokens".to_owned() }),
        Err(why) => Err(BenchError::Fit { why }),
    }
}

/// The input tokens that the server counted, if it told, or why there is no answer.
type Outcome = Result<Option<u32>, String>;

/// One operation of a driver on a connection of its own; the input tokens that the server counted.
fn exchange(driver: &dyn Driver, endpoint: &Endpoint, patience: Duration, index: u64) -> Outcome {
    let session = RefCell::new(driver.session(0, 0));
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.borrow_mut().open(&mut out, &mut events);
    session.borrow_mut().start(Op { token: OpToken(0), index, intended_ns: 0 }, &mut out);
    let state = RefCell::new((0_usize, None::<Outcome>));
    let look = |events: Vec<SessionEvent>, outcome: &mut Option<Outcome>| {
        for event in events {
            match event {
                SessionEvent::Done { answer, .. } => *outcome = Some(Ok(answer.input_tokens)),
                SessionEvent::Failed { failure, .. } => {
                    *outcome = Some(Err(format!("{} ({})", failure.message, failure.advice)));
                }
                SessionEvent::Broken { failure } if outcome.is_none() => {
                    *outcome = Some(Err(format!("{} ({})", failure.message, failure.advice)));
                }
                _ => {}
            }
        }
        outcome.is_some()
    };
    let complete = |bytes: &[u8]| {
        let (taken, outcome) = &mut *state.borrow_mut();
        let (mut reply, mut events) = (Vec::new(), Vec::new());
        session.borrow_mut().receive(&bytes[*taken..], &mut reply, &mut events);
        *taken = bytes.len();
        look(events, outcome)
    };
    let answer = probe::exchange(endpoint, &out, patience, &complete)
        .map_err(|failure| format!("{} ({})", failure.message, failure.advice))?;
    // A server that closes with its answer ends the exchange before the last bytes were looked at.
    if state.borrow().1.is_none() && !complete(&answer) {
        let mut events = Vec::new();
        session.borrow_mut().end_of_stream(&mut events);
        look(events, &mut state.borrow_mut().1);
    }
    state.into_inner().1.unwrap_or_else(|| Err("the connection ended before its answer".to_owned()))
}
