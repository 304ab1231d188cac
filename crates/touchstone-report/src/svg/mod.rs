//! Charts as complete `<svg>` elements: no script, no external resource, the same input always the same bytes.
//!
//! Each chart carries `<title>` and `<desc>` for readers that cannot see it, axis ticks at round numbers, units, and
//! labels at the data itself; series differ by dash as well as by colour, and the colours (Okabe and Ito's palette,
//! a single-hue ramp for ranks) stay apart for colour-blind readers. Colours are CSS variables with fallbacks, so a page
//! may darken them and a chart on its own still shows. A `mark` such as "simulated" is drawn as a badge and as a
//! watermark inside the chart, so that it survives being cut out.

mod bars;
mod line;

pub use bars::{Bar, BarChart, Interval, IntervalChart, Stack, StackedChart};
pub use line::{Axis, Band, LineChart, Reference, Scale, Series, Shape};

/// Width of every chart in its own units; it scales to the page.
pub(crate) const WIDTH: f64 = 760.0;

/// What every chart has besides its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// An id that is unique on the page: letters, digits and dashes.
    pub id: String,
    /// The title, shown and read out.
    pub title: String,
    /// What the chart shows, in a sentence; read out.
    pub description: String,
    /// The mark, such as "SIMULATED"; null for measured data.
    pub mark: Option<String>,
}

/// Escapes text for SVG, HTML text and quoted attributes; control characters become spaces.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::text::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The colours of series, by index.
const SERIES: [&str; 7] = [
    "var(--ts-s0,#0072b2)",
    "var(--ts-s1,#d55e00)",
    "var(--ts-s2,#009e73)",
    "var(--ts-s3,#aa4499)",
    "var(--ts-s4,#b8860b)",
    "var(--ts-s5,#3a9bd9)",
    "var(--ts-s6,#5b5b5b)",
];
/// Dashes that go with them, so that series differ without colour too.
const DASHES: [&str; 7] = ["", "7 3", "2 2.5", "9 3 2 3", "12 4", "4 4", "1.5 4"];
/// Colours of ranks, best first, and of the text on them.
const RANKS: [(&str, &str); 6] = [
    ("var(--ts-r0,#08519c)", "#ffffff"),
    ("var(--ts-r1,#3182bd)", "#ffffff"),
    ("var(--ts-r2,#6baed6)", "#10202e"),
    ("var(--ts-r3,#9ecae1)", "#10202e"),
    ("var(--ts-r4,#c6dbef)", "#10202e"),
    ("var(--ts-r5,#dfe8f1)", "#10202e"),
];
const INK: &str = "var(--ts-ink,#1c2128)";
const MUTED: &str = "var(--ts-muted,#5b6570)";
const GRID: &str = "var(--ts-grid,#e2e6ea)";
const LIMIT: &str = "var(--ts-bad,#b3261e)";
const SHADE: &str = "var(--ts-shade,#eef1f4)";

fn color(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}

fn dash(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

/// A coordinate with one decimal: finer than a screen shows, and stable.
fn at(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under way.
struct Canvas {
    body: String,
}

impl Canvas {
    /// Opens a chart of this height: title, description, and the badge of the mark.
    fn open(head: &Head, height: f64) -> Self {
        let id = escape(&head.id);
        let mut body = String::new();
        let mark = head.mark.as_ref().map(|mark| format!(" [{}]", escape(mark))).unwrap_or_default();
        body.push_str(&format!("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" style=\"font-family:var(--ts-font,system-ui,sans-serif);font-size:12px\">\n<title id=\"{id}-t\">{}{mark}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
            at(WIDTH),
            at(height),
            escape(&head.title),
            escape(&head.description)));
        let mut canvas = Self { body };
        canvas.put(&head.title, 0.0, 15.0, Anchor::Start, INK, "font-weight:600;font-size:14px");
        if let Some(mark) = &head.mark {
            let wide = crate::text::width(mark) as f64 * 7.6 + 18.0;
            canvas.rect(WIDTH - wide, 0.0, wide, 20.0, "var(--ts-mark,#8a4b00)", "4");
            canvas.put(
                mark,
                WIDTH - wide / 2.0,
                14.0,
                Anchor::Middle,
                "#ffffff",
                "font-weight:700;font-size:11px;letter-spacing:.06em",
            );
        }
        canvas
    }

    /// The watermark behind the data, centred in the plot.
    fn watermark(&mut self, head: &Head, x: f64, y: f64) {
        if let Some(mark) = &head.mark {
            self.body.push_str(&format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-12 {x} {y})\" style=\"fill:var(--ts-mark,#8a4b00);fill-opacity:var(--ts-mark-opacity,.12);font-size:58px;font-weight:800;letter-spacing:.1em\">{}</text>\n",
                escape(mark),
                x = at(x),
                y = at(y)));
        }
    }

    fn put(&mut self, text: &str, x: f64, y: f64, anchor: Anchor, fill: &str, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.body.push_str(&format!(
            "<text x=\"{}\" y=\"{}\"{anchor} style=\"fill:{fill};{more}\">{}</text>\n",
            at(x),
            at(y),
            escape(text)
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, more: &str) {
        self.body.push_str(&format!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" style=\"stroke:{stroke};{more}\"/>\n",
            at(from.0),
            at(from.1),
            at(to.0),
            at(to.1)
        ));
    }

    fn rect(&mut self, x: f64, y: f64, wide: f64, high: f64, fill: &str, radius: &str) {
        self.body.push_str(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{radius}\" style=\"fill:{fill}\"/>\n",
            at(x),
            at(y),
            at(wide.max(0.0)),
            at(high.max(0.0))
        ));
    }

    fn circle(&mut self, x: f64, y: f64, radius: f64, fill: &str) {
        self.body.push_str(&format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" style=\"fill:{fill}\"/>\n",
            at(x),
            at(y),
            at(radius)
        ));
    }

    /// A row of named samples below the title; returns the height it took.
    fn legend(&mut self, entries: &[(String, usize)], y: f64) -> f64 {
        let (mut x, mut row) = (0.0, y);
        for (name, index) in entries {
            let wide = crate::text::width(name) as f64 * 6.6 + 42.0;
            if x > 0.0 && x + wide > WIDTH {
                (x, row) = (0.0, row + 17.0);
            }
            let more = format!("stroke-width:2.4;stroke-dasharray:{}", dash_or_none(*index));
            self.line((x, row - 4.0), (x + 22.0, row - 4.0), color(*index), &more);
            self.put(name, x + 27.0, row, Anchor::Start, MUTED, "");
            x += wide;
        }
        row - y + 17.0
    }

    fn close(mut self) -> String {
        self.body.push_str("</svg>\n");
        self.body
    }
}

fn dash_or_none(index: usize) -> &'static str {
    if dash(index).is_empty() { "none" } else { dash(index) }
}

/// Round numbers between `from` and `to`, about `wanted` of them: steps of 1, 2, 2.5 or 5 times a power of ten.
fn ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let span = to - from;
    if !span.is_finite() || span <= 0.0 {
        return vec![from];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    (0..=((last - first).clamp(0.0, 50.0) as usize)).map(|index| (first + index as f64) * step).collect()
}

/// Powers of ten between two positive numbers, with 2 and 5 between them when there are few.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let steps: &[f64] = match high - low {
        ..=1 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        2..=3 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let every = ((high - low) / 8 + 1).max(1);
    (low..=high)
        .step_by(every as usize)
        .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
        .filter(|tick| *tick >= from * 0.999 && *tick <= to * 1.001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 103.0, 5), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(ticks(0.0, 1e300, 4).len(), 5);
        assert_eq!(ticks(3.0, 3.0, 5), [3.0]);
        assert_eq!(ticks(f64::NAN, 3.0, 5).len(), 1);
        assert_eq!(log_ticks(0.8, 1200.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(log_ticks(10.0, 60.0), [10.0, 15.0, 20.0, 30.0, 50.0]);
    }

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("<script>\"&'\u{1b}"), "&lt;script&gt;&quot;&amp;&#39; ");
        assert_eq!((at(1.04), at(-0.01), at(f64::NAN)), ("1".into(), "0".into(), "0".into()));
    }
}
