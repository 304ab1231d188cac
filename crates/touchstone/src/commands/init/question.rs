//! The questions of `init`: what is asked, with an example, the flag, and how an answer is read.

use touchstone_model::unit::{Bytes, Growth, Millis, Share};
use touchstone_model::{Dimension, Family, Requirement, Subject};
use touchstone_report::Lang;

use crate::args::{Answer, DEMANDED, InitArgs, answer, demand, parse_value};

/// Something that a scenario cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Family,
    Arrival,
    InputTokens,
    OutputTokens,
    MessageBytes,
    Keys,
    ValueBytes,
    ReadRatio,
    /// The dimension at this position of [`DEMANDED`].
    Demand(usize),
    PeakFactor,
    Growth,
    Horizon,
}

/// What is still to be answered, in the order of asking. What a family needs is known once the family is.
pub(super) fn open(answers: &InitArgs) -> Vec<Item> {
    let mut items =
        vec![(Item::Family, answers.family.is_some()), (Item::Arrival, answers.arrival.is_some())];
    match answers.family {
        Some(Family::Inference) => items.extend([
            (Item::InputTokens, answers.input_tokens.is_some()),
            (Item::OutputTokens, answers.output_tokens.is_some()),
        ]),
        Some(Family::Queue) => items.push((Item::MessageBytes, answers.message_bytes.is_some())),
        Some(Family::Cache) => items.extend([
            (Item::Keys, answers.keys.is_some()),
            (Item::ValueBytes, answers.value_bytes.is_some()),
            (Item::ReadRatio, answers.read_ratio.is_some()),
        ]),
        None => {}
    }
    items.extend(answers.demands.iter().enumerate().map(|(at, given)| (Item::Demand(at), given.is_some())));
    items.extend([
        (Item::PeakFactor, answers.peak_factor.is_some()),
        (Item::Growth, answers.growth.is_some()),
        (Item::Horizon, answers.horizon.is_some()),
    ]);
    items.into_iter().filter(|(_, given)| !given).map(|(item, _)| item).collect()
}

/// The question.
pub(super) fn text(item: Item, family: Option<Family>, lang: Lang) -> &'static str {
    let (en, zh) = match item {
        Item::Family => (
            "which family of systems is it about: inference, queue or cache?",
            "涉及哪一类系统：inference（推理引擎）、queue（消息队列）还是 cache（缓存）？",
        ),
        Item::Arrival => (
            "when do operations start: at which rate, or with how many users at once?",
            "操作何时到达：速率是多少，或同时有多少个用户？",
        ),
        Item::InputTokens => ("how many tokens does a prompt have?", "一个提示词有多少 token？"),
        Item::OutputTokens => ("how many tokens does an answer have?", "一个回答有多少 token？"),
        Item::MessageBytes => ("how large is a message?", "一条消息有多大？"),
        Item::Keys => ("how many keys are in use?", "使用多少个键？"),
        Item::ValueBytes => ("how large is a value?", "一个值有多大？"),
        Item::ReadRatio => ("what share of the operations reads?", "读操作占多大比例？"),
        Item::Demand(at) => match DEMANDED[at] {
            Dimension::Latency => (
                "latency: which metric, which percentile, which bound?",
                "延迟：哪个指标、哪个百分位、上限多少？",
            ),
            Dimension::Throughput => (
                "throughput: how many operations or tokens per second must be sustained?",
                "吞吐：每秒必须持续完成多少操作或 token？",
            ),
            Dimension::Consistency if family == Some(Family::Inference) => (
                "consistency: must one prompt always give one answer? otherwise say why it does not matter",
                "一致性：同一提示词必须得到同一回答吗？否则请说明为何无关紧要",
            ),
            Dimension::Consistency => (
                "consistency: which delivery class, ordering scope or staleness is needed?",
                "一致性：需要怎样的投递等级、顺序范围或数据新鲜度？",
            ),
            _ => ("reliability: how much may fail or be lost?", "可靠性：允许多少失败或丢失？"),
        },
        Item::PeakFactor => ("how high is the peak over the stated load?", "峰值是所述负载的多少倍？"),
        Item::Growth => ("how fast does the load grow?", "负载增长有多快？"),
        Item::Horizon => ("for how long is the decision meant to hold?", "这个决策预期有效多久？"),
    };
    match lang {
        Lang::En => en,
        Lang::Zh => zh,
    }
}

/// An answer that could be given.
pub(super) fn example(item: Item, family: Option<Family>) -> &'static str {
    let of = |inference, queue, cache| match family {
        Some(Family::Queue) => queue,
        Some(Family::Cache) => cache,
        _ => inference,
    };
    match item {
        Item::Family => "inference",
        Item::Arrival => of("poisson:10/s", "constant:5000/s", "constant:20k/s"),
        Item::InputTokens => "128",
        Item::OutputTokens => "64",
        Item::MessageBytes => "128B",
        Item::Keys => "100000",
        Item::ValueBytes => "64B",
        Item::ReadRatio => "90%",
        Item::Demand(at) => match DEMANDED[at] {
            Dimension::Latency => {
                of("ttft.p99 <= 400ms; itl.p95 <= 50ms", "end_to_end_latency.p99 <= 20ms", "e2e.p99 <= 2ms")
            }
            Dimension::Throughput => of("throughput >= 9/s", "throughput >= 4900/s", "throughput >= 19k/s"),
            Dimension::Consistency => of(
                "none: any fluent answer will do",
                "delivery >= at-least-once; ordering >= per-key",
                "staleness <= 100ms",
            ),
            _ => {
                of("error_rate <= 1%", "durability >= D3; lost <= 0", "none: the data can be computed again")
            }
        },
        Item::PeakFactor => "2",
        Item::Growth => "50%/year",
        Item::Horizon => "12 months",
    }
}

/// The flag that answers, with an example as one would type it.
pub(super) fn flag(item: Item, family: Option<Family>) -> String {
    let name = match item {
        Item::Family => "family",
        Item::Arrival => "arrival",
        Item::InputTokens => "input-tokens",
        Item::OutputTokens => "output-tokens",
        Item::MessageBytes => "message-bytes",
        Item::Keys => "keys",
        Item::ValueBytes => "value-bytes",
        Item::ReadRatio => "read-ratio",
        Item::Demand(at) => DEMANDED[at].as_str(),
        Item::PeakFactor => "peak-factor",
        Item::Growth => "growth",
        Item::Horizon => "horizon",
    };
    // A flag takes one requirement each time.
    let values = example(item, family).split("; ");
    let one = |value: &str| {
        let bare = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:/%-_".contains(&byte));
        if bare { format!("--{name} {value}") } else { format!("--{name} '{value}'") }
    };
    values.map(one).collect::<Vec<_>>().join(" ")
}

/// What is wrong with requiring a capability that means nothing for the family.
fn foreign_capability(answer: &Answer, family: Option<Family>) -> Option<String> {
    let Answer::Require(Requirement { subject: Subject::Capability(capability), .. }) = answer else {
        return None;
    };
    let family = family?;
    let foreign = !capability.families().contains(&family);
    foreign.then(|| format!("`{capability}` means nothing for {family} systems"))
}

/// Reads an answer and keeps it.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn set(answers: &mut InitArgs, item: Item, text: &str) -> Result<(), String> {
    let whole = |least: u64, greatest: u64| {
        let number = text.replace('_', "").parse::<u64>().ok().filter(|n| (least..=greatest).contains(n));
        number.ok_or_else(|| {
            format!("`{text}` is no such number; expected a whole number from {least} to {greatest}")
        })
    };
    let tokens = || whole(1, 10_000_000).map(|number| number as u32);
    match item {
        Item::Family => {
            let family = Family::ALL.into_iter().find(|family| family.as_str() == text);
            answers.family =
                Some(family.ok_or(format!("`{text}` is no family; expected inference, queue or cache"))?);
        }
        Item::Arrival => answers.arrival = Some(parse_value::arrival(text)?),
        Item::InputTokens => answers.input_tokens = Some(tokens()?),
        Item::OutputTokens => answers.output_tokens = Some(tokens()?),
        Item::MessageBytes => answers.message_bytes = Some(Bytes(f64::from(parse_value::size(text)?))),
        Item::Keys => answers.keys = Some(whole(1, 1 << 53)?),
        Item::ValueBytes => answers.value_bytes = Some(Bytes(f64::from(parse_value::size(text)?))),
        Item::ReadRatio => answers.read_ratio = Some(Share(parse_value::share(text)?)),
        Item::Demand(at) => {
            // A reason may hold a semicolon; requirements never do.
            let waives = text.trim_start().starts_with("none");
            let parts: Vec<&str> = if waives { vec![text] } else { text.split(';').collect() };
            let read: Vec<_> = parts.into_iter().map(answer).collect::<Result<_, _>>()?;
            let family = answers.family;
            if let Some(foreign) = read.iter().find_map(|answer| foreign_capability(answer, family)) {
                return Err(foreign);
            }
            answers.demands[at] = demand(DEMANDED[at], read).map_err(|failure| failure.to_string())?;
        }
        Item::PeakFactor => {
            let factor = text.trim_end_matches('x').parse::<f64>().ok().filter(|x| (1.0..=1e6).contains(x));
            answers.peak_factor =
                Some(factor.ok_or(format!("`{text}` is no peak factor; expected a number, at least 1"))?);
        }
        Item::Growth => answers.growth = Some(text.parse::<Growth>().map_err(|error| error.to_string())?),
        Item::Horizon => {
            let horizon: Millis =
                text.parse().map_err(|error: touchstone_model::unit::QuantityError| error.to_string())?;
            if horizon.0 <= 0.0 {
                return Err("expected a time from now on, such as `12 months`".to_owned());
            }
            answers.horizon = Some(horizon);
        }
    }
    Ok(())
}
