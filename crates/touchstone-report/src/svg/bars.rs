//! Charts of one figure per row: bars, intervals against a limit, stacked shares.

use super::{Anchor, Canvas, GRID, Head, INK, LIMIT, MUTED, RANKS, SHADE, WIDTH, color, ticks};
use crate::{number, text};

const ROW: f64 = 24.0;

/// A row of a bar chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    /// What it is.
    pub label: String,
    /// Its length; null draws only the note.
    pub value: Option<f64>,
    /// Lower and upper end of its interval, where there is one.
    pub interval: (Option<f64>, Option<f64>),
    /// What is written at its end.
    pub note: String,
    /// The index of its colour.
    pub color: usize,
}

/// Horizontal bars from zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarChart {
    /// Id, title, description, mark.
    pub head: Head,
    /// What is on the axis, with the unit.
    pub axis: String,
    /// The rows, top down.
    pub bars: Vec<Bar>,
    /// What to write when there are none.
    pub empty: String,
}

/// A row of an interval chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// What it is.
    pub label: String,
    /// Lower end.
    pub lower: Option<f64>,
    /// The point in between.
    pub middle: Option<f64>,
    /// Upper end; null when it is open above.
    pub upper: Option<f64>,
    /// What is written at its end.
    pub note: String,
    /// The index of its colour.
    pub color: usize,
}

/// Intervals of several candidates on one axis, with a limit drawn across.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IntervalChart {
    /// Id, title, description, mark.
    pub head: Head,
    /// What is on the axis, with the unit.
    pub axis: String,
    /// The rows, top down.
    pub rows: Vec<Interval>,
    /// A limit with its label.
    pub limit: Option<(f64, String)>,
    /// What to write when no row has a figure.
    pub empty: String,
}

/// A row of a stacked chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stack {
    /// What it is.
    pub label: String,
    /// The shares, which add up to one at most.
    pub parts: Vec<f64>,
}

/// Stacked shares of one, such as rank acceptabilities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackedChart {
    /// Id, title, description, mark.
    pub head: Head,
    /// Names of the parts, first to last.
    pub parts: Vec<String>,
    /// The rows, top down.
    pub rows: Vec<Stack>,
    /// What to write when there are none.
    pub empty: String,
}

/// Space for the labels of rows, within reason.
fn gutter<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    (labels.map(text::width).max().unwrap_or(0) as f64 * 6.7 + 12.0).clamp(48.0, 230.0)
}

fn label(canvas: &mut Canvas, name: &str, left: f64, y: f64) {
    let fits = text::shorten(name, ((left - 8.0) / 6.4) as usize);
    canvas.put(&fits, left - 9.0, y + 4.0, Anchor::End, INK, "");
}

fn nothing(head: &Head, empty: &str) -> String {
    let mut canvas = Canvas::open(head, 84.0);
    canvas.rect(0.0, 28.0, WIDTH, 50.0, SHADE, "3");
    canvas.put(empty, WIDTH / 2.0, 57.0, Anchor::Middle, MUTED, "");
    canvas.close()
}

/// Grid lines with their values below the rows, and the name of the axis.
fn axis(canvas: &mut Canvas, name: &str, range: (f64, f64), left: f64, right: f64, top: f64, bottom: f64) {
    for value in ticks(range.0, range.1, 6) {
        let x = left + (right - left) * (value - range.0) / (range.1 - range.0);
        canvas.line((x, top), (x, bottom), GRID, "stroke-width:1");
        canvas.put(&number::compact(value), x, bottom + 15.0, Anchor::Middle, MUTED, "font-size:11px");
    }
    canvas.put(name, (left + right) / 2.0, bottom + 31.0, Anchor::Middle, MUTED, "font-size:11px");
}

fn greatest(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().filter(|value| value.is_finite()).reduce(f64::max)
}

impl BarChart {
    /// The `<svg>` element.
    #[must_use]
    pub fn render(&self) -> String {
        if self.bars.is_empty() {
            return nothing(&self.head, &self.empty);
        }
        let left = gutter(self.bars.iter().map(|bar| bar.label.as_str()));
        let notes = self.bars.iter().map(|bar| text::width(&bar.note)).max().unwrap_or(0) as f64 * 6.4 + 16.0;
        let right = (WIDTH - notes).max(left + 120.0);
        let (top, bottom) = (32.0, 32.0 + ROW * self.bars.len() as f64);
        let to = greatest(self.bars.iter().flat_map(|bar| [bar.value, bar.interval.0, bar.interval.1]));
        let to = to.filter(|to| *to > 0.0).unwrap_or(1.0) * 1.04;
        let mut canvas = Canvas::open(&self.head, bottom + 36.0);
        axis(&mut canvas, &self.axis, (0.0, to), left, right, top, bottom);
        canvas.watermark(&self.head, (left + right) / 2.0, (top + bottom) / 2.0 + 18.0);
        let place = |value: f64| left + (right - left) * (value / to).clamp(0.0, 1.0);
        for (index, bar) in self.bars.iter().enumerate() {
            let y = top + ROW * (index as f64 + 0.5);
            label(&mut canvas, &bar.label, left, y);
            let mut end = left;
            if let Some(value) = bar.value.filter(|value| value.is_finite()) {
                end = place(value);
                canvas.rect(left, y - 7.0, (end - left).max(1.0), 14.0, color(bar.color), "2");
            }
            let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
            if let Some(upper) = finite(bar.interval.1) {
                let lower = finite(bar.interval.0).or(finite(bar.value)).unwrap_or(upper);
                let (from, to) = (place(lower), place(upper));
                canvas.line((from, y), (to, y), INK, "stroke-width:1.6");
                for x in [from, to] {
                    canvas.line((x, y - 4.5), (x, y + 4.5), INK, "stroke-width:1.6");
                }
                end = end.max(to);
            }
            canvas.put(&bar.note, end + 7.0, y + 4.0, Anchor::Start, MUTED, "font-size:11.5px");
        }
        canvas.line((left, top), (left, bottom), MUTED, "stroke-width:1");
        canvas.close()
    }
}

impl IntervalChart {
    /// The `<svg>` element.
    #[must_use]
    pub fn render(&self) -> String {
        let limit = self.limit.as_ref().filter(|(value, _)| value.is_finite());
        let all = || {
            let ends = self.rows.iter().flat_map(|row| [row.lower, row.middle, row.upper]);
            ends.flatten().filter(|value| value.is_finite())
        };
        let (Some(least), Some(most)) = (all().reduce(f64::min), all().reduce(f64::max)) else {
            return nothing(&self.head, &self.empty);
        };
        let most = limit.map_or(most, |(value, _)| most.max(*value));
        let least = limit.map_or(least, |(value, _)| least.min(*value));
        let pad = if most > least { (most - least) * 0.08 } else { most.abs().max(1.0) * 0.1 };
        // Zero belongs on the axis unless the figures crowd far away from it.
        let from = if least >= 0.0 && least < most * 0.6 { 0.0 } else { least - pad };
        let range = (from, most + pad);
        let left = gutter(self.rows.iter().map(|row| row.label.as_str()));
        let notes = self.rows.iter().map(|row| text::width(&row.note)).max().unwrap_or(0) as f64 * 6.4 + 14.0;
        let right = (WIDTH - notes).max(left + 120.0);
        let top = if limit.is_some() { 46.0 } else { 32.0 };
        let bottom = top + ROW * self.rows.len() as f64;
        let mut canvas = Canvas::open(&self.head, bottom + 36.0);
        axis(&mut canvas, &self.axis, range, left, right, top, bottom);
        canvas.watermark(&self.head, (left + right) / 2.0, (top + bottom) / 2.0 + 18.0);
        let place =
            |value: f64| left + (right - left) * ((value - range.0) / (range.1 - range.0)).clamp(0.0, 1.0);
        if let Some((value, name)) = limit {
            let x = place(*value);
            canvas.line((x, top - 4.0), (x, bottom), LIMIT, "stroke-width:1.6;stroke-dasharray:5 3");
            let anchor = if x > (left + right) / 2.0 { Anchor::End } else { Anchor::Start };
            canvas.put(name, x, top - 8.0, anchor, LIMIT, "font-size:11px;font-weight:600");
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + ROW * (index as f64 + 0.5);
            label(&mut canvas, &row.label, left, y);
            let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
            let (lower, middle, upper) = (finite(row.lower), finite(row.middle), finite(row.upper));
            let ink = color(row.color);
            if let (Some(from), Some(to)) = (lower.or(middle), upper.or(middle).or(lower)) {
                canvas.line(
                    (place(from), y),
                    (place(to), y),
                    ink,
                    "stroke-width:7;stroke-linecap:round;stroke-opacity:.38",
                );
                if upper.is_none() {
                    // Open above: the interval goes on past what can be said.
                    canvas.line((place(to), y), (right, y), ink, "stroke-width:2;stroke-dasharray:2 4");
                }
            }
            if let Some(middle) = middle {
                canvas.circle(place(middle), y, 4.6, ink);
            }
            canvas.put(&row.note, right + 9.0, y + 4.0, Anchor::Start, MUTED, "font-size:11.5px");
        }
        canvas.close()
    }
}

impl StackedChart {
    /// The `<svg>` element.
    #[must_use]
    pub fn render(&self) -> String {
        if self.rows.is_empty() {
            return nothing(&self.head, &self.empty);
        }
        let left = gutter(self.rows.iter().map(|row| row.label.as_str()));
        let right = WIDTH - 14.0;
        let top = 52.0;
        let row_height = 30.0;
        let bottom = top + row_height * self.rows.len() as f64;
        let mut canvas = Canvas::open(&self.head, bottom + 28.0);
        let mut x = 0.0;
        for (index, name) in self.parts.iter().enumerate() {
            canvas.rect(x, 27.0, 12.0, 12.0, RANKS[index.min(RANKS.len() - 1)].0, "2");
            canvas.put(name, x + 17.0, 37.0, Anchor::Start, MUTED, "");
            x += text::width(name) as f64 * 6.6 + 36.0;
        }
        for value in ticks(0.0, 1.0, 5) {
            let x = left + (right - left) * value;
            canvas.line((x, top), (x, bottom), GRID, "stroke-width:1");
            canvas.put(&number::percent(value), x, bottom + 16.0, Anchor::Middle, MUTED, "font-size:11px");
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + row_height * index as f64 + 4.0;
            label(&mut canvas, &row.label, left, y + 11.0);
            let mut from = left;
            for (part, share) in row.parts.iter().enumerate() {
                let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
                let wide = ((right - left) * share).min(right - from).max(0.0);
                let (fill, ink) = RANKS[part.min(RANKS.len() - 1)];
                canvas.rect(from, y, wide, row_height - 8.0, fill, "0");
                if wide > 36.0 {
                    let middle = from + wide / 2.0;
                    canvas.put(
                        &number::probability(share),
                        middle,
                        y + 15.5,
                        Anchor::Middle,
                        ink,
                        "font-size:11.5px;font-weight:600",
                    );
                }
                from += wide;
            }
        }
        canvas.watermark(&self.head, (left + right) / 2.0, (top + bottom) / 2.0 + 18.0);
        canvas.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            id: "b".into(),
            title: "Title <1>".into(),
            description: "d".into(),
            mark: Some("SIMULATED".into()),
        }
    }

    #[test]
    fn bars_intervals_and_stacks_are_what_they_were() {
        let bars = BarChart {
            head: head(),
            axis: "ms".into(),
            bars: vec![
                Bar {
                    label: "p99".into(),
                    value: Some(180.0),
                    interval: (Some(170.0), Some(213.0)),
                    note: "<= 213 ms".into(),
                    color: 0,
                },
                Bar { label: "p99.9".into(), note: "needs 628, has 212".into(), ..Bar::default() },
            ],
            empty: "none".into(),
        };
        insta::assert_snapshot!("bars", bars.render());
        let rows = vec![
            Interval {
                label: "a".into(),
                lower: Some(80.0),
                middle: Some(90.0),
                upper: Some(99.0),
                ..Interval::default()
            },
            Interval {
                label: "b".into(),
                lower: Some(95.0),
                middle: Some(120.0),
                upper: None,
                color: 1,
                ..Interval::default()
            },
        ];
        let intervals = IntervalChart {
            head: head(),
            axis: "ms".into(),
            rows,
            limit: Some((100.0, "<= 100 ms".into())),
            empty: "none".into(),
        };
        insta::assert_snapshot!("intervals", intervals.render());
        let stacked = StackedChart {
            head: head(),
            parts: vec!["1".into(), "2".into()],
            rows: vec![
                Stack { label: "a".into(), parts: vec![0.7, 0.3] },
                Stack { label: "b".into(), parts: vec![0.3, f64::NAN] },
            ],
            empty: "none".into(),
        };
        insta::assert_snapshot!("stacked", stacked.render());
    }

    #[test]
    fn nothing_says_so_and_keeps_its_mark() {
        for svg in [
            BarChart { head: head(), empty: "none".into(), ..BarChart::default() }.render(),
            IntervalChart { head: head(), empty: "none".into(), ..IntervalChart::default() }.render(),
            StackedChart { head: head(), empty: "none".into(), ..StackedChart::default() }.render(),
        ] {
            assert!(svg.contains(">none<") && svg.contains(">SIMULATED<"), "{svg}");
        }
    }
}
