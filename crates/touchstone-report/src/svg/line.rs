//! Charts of something over time or over a value.

use super::{
    Anchor, Canvas, GRID, Head, LIMIT, MUTED, SHADE, WIDTH, at, color, dash_or_none, log_ticks, ticks,
};
use crate::number;

/// How values are laid out on an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal lengths.
    #[default]
    Linear,
    /// Equal ratios are equal lengths; only positive values are shown.
    Log,
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    /// What is on it, with the unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// Greatest value to show; null for what the data need.
    pub top: Option<f64>,
    /// Whether values are shares, shown as percentages.
    pub percent: bool,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// Points joined by lines.
    #[default]
    Line,
    /// Each value holds until the next point.
    Step,
    /// As `Step`, filled down to zero.
    Area,
}

/// Values to draw; a point without a value is a gap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The name.
    pub name: String,
    /// How it is drawn.
    pub shape: Shape,
    /// The index of its colour and dash.
    pub color: usize,
    /// The points, ascending in the first.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A part of the x axis that is set apart, such as warm-up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Band {
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
    /// What it is.
    pub label: String,
}

/// A level on the y axis, such as a limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reference {
    /// The value.
    pub value: f64,
    /// What it is.
    pub label: String,
}

/// A chart of series over a common x axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineChart {
    /// Id, title, description, mark.
    pub head: Head,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The data.
    pub series: Vec<Series>,
    /// Parts set apart.
    pub bands: Vec<Band>,
    /// Levels drawn across.
    pub references: Vec<Reference>,
    /// Names in a row above the plot instead of at the ends of the lines, for lines that end in one place.
    pub legend: bool,
    /// What to write when no series has a value.
    pub empty: String,
}

const LEFT: f64 = 58.0;
const PLOT: f64 = 180.0;

/// The linear or logarithmic map from values to the drawing.
struct Map {
    scale: Scale,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Map {
    fn put(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        self.start + (self.end - self.start) * share.clamp(0.0, 1.0)
    }

    fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => ticks(self.from, self.to, wanted),
            Scale::Log => log_ticks(self.from, self.to),
        }
    }
}

impl LineChart {
    /// The `<svg>` element.
    #[must_use]
    pub fn render(&self) -> String {
        let mut legend = Canvas { body: String::new() };
        let entries: Vec<_> = self.series.iter().map(|series| (series.name.clone(), series.color)).collect();
        let legend_height = if self.legend { legend.legend(&entries, 36.0) } else { 2.0 };
        let top = 32.0 + legend_height + if self.legend { 5.0 } else { 0.0 };
        let bottom = top + PLOT;
        let labels = self.series.iter().map(|series| crate::text::width(&series.name)).max().unwrap_or(0);
        let right = if self.legend { WIDTH - 14.0 } else { WIDTH - 14.0 - labels as f64 * 7.6 };
        let mut canvas = Canvas::open(&self.head, bottom + 38.0);
        if self.legend {
            canvas.body.push_str(&legend.body);
        }
        let (Some(x), Some(y)) = (self.x_map(right), self.y_map(top, bottom)) else {
            canvas.rect(LEFT, top, right - LEFT, PLOT, SHADE, "3");
            canvas.put(&self.empty, (LEFT + right) / 2.0, top + PLOT / 2.0, Anchor::Middle, MUTED, "");
            return canvas.close();
        };
        for band in self.bands.iter().filter(|band| band.to > band.from) {
            let (from, to) = (x.put(band.from), x.put(band.to));
            canvas.rect(from, top, to - from, PLOT, SHADE, "0");
            if to - from > crate::text::width(&band.label) as f64 * 6.0 {
                canvas.put(
                    &band.label,
                    (from + to) / 2.0,
                    top - 4.0,
                    Anchor::Middle,
                    MUTED,
                    "font-size:10.5px",
                );
            }
        }
        canvas.watermark(&self.head, (LEFT + right) / 2.0, top + PLOT / 2.0 + 20.0);
        self.axes(&mut canvas, &x, &y);
        for series in &self.series {
            draw(&mut canvas, series, &x, &y);
        }
        for reference in self.references.iter().filter(|reference| reference.value.is_finite()) {
            // A line at the edge would be read as a limit that the data nearly reach: off the scale there is a label.
            let (label, level) = if reference.value > y.to {
                (&format!("{} ↑", reference.label), y.end + 10.0)
            } else {
                let level = y.put(reference.value);
                canvas.line((LEFT, level), (right, level), LIMIT, "stroke-width:1.2;stroke-dasharray:5 3");
                (&reference.label, level - 4.0)
            };
            canvas.put(label, LEFT + 5.0, level, Anchor::Start, LIMIT, "font-size:11px;font-weight:600");
        }
        if !self.legend {
            self.label_ends(&mut canvas, &y, right);
        }
        canvas.close()
    }

    fn finite(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series
            .iter()
            .flat_map(|series| &series.points)
            .filter_map(|(x, y)| Some((*x, (*y)?)))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    fn x_map(&self, right: f64) -> Option<Map> {
        let positive = |value: &f64| self.x.scale == Scale::Linear || *value > 0.0;
        let all = || self.finite().map(|(x, _)| x).filter(positive);
        let mut from = all().reduce(f64::min)?;
        let mut to = all().reduce(f64::max)?;
        if self.x.scale == Scale::Linear {
            from = self.bands.iter().map(|band| band.from).fold(from, f64::min);
            to = self.bands.iter().map(|band| band.to).fold(to, f64::max);
        }
        if to <= from {
            (from, to) = match self.x.scale {
                Scale::Linear => (from - 0.5, from + 0.5),
                Scale::Log => (from / 1.5, from * 1.5),
            };
        }
        Some(Map { scale: self.x.scale, from, to, start: LEFT, end: right })
    }

    fn y_map(&self, top: f64, bottom: f64) -> Option<Map> {
        let greatest = self.finite().map(|(_, y)| y).reduce(f64::max)?;
        // A limit far above the data would flatten them: it is off the scale instead.
        let near =
            self.references.iter().map(|reference| reference.value).filter(|value| *value <= greatest * 3.0);
        let needed = near.fold(greatest, f64::max);
        let to = self.y.top.unwrap_or(if needed > 0.0 { needed * 1.08 } else { 1.0 });
        Some(Map { scale: Scale::Linear, from: 0.0, to, start: bottom, end: top })
    }

    fn axes(&self, canvas: &mut Canvas, x: &Map, y: &Map) {
        let tick = |axis: &Axis, value: f64| {
            if axis.percent { number::percent(value) } else { number::compact(value) }
        };
        for value in y.ticks(4) {
            let level = y.put(value);
            canvas.line((LEFT, level), (x.end, level), GRID, "stroke-width:1");
            canvas.put(&tick(&self.y, value), LEFT - 7.0, level + 4.0, Anchor::End, MUTED, "font-size:11px");
        }
        canvas.line((LEFT, y.start), (x.end, y.start), MUTED, "stroke-width:1");
        let mut last = f64::NEG_INFINITY;
        for value in x.ticks(8) {
            let place = x.put(value);
            canvas.line((place, y.start), (place, y.start + 4.0), MUTED, "stroke-width:1");
            let text = tick(&self.x, value);
            let half = text.len() as f64 * 3.4;
            if place - half > last + 4.0 {
                canvas.put(&text, place, y.start + 17.0, Anchor::Middle, MUTED, "font-size:11px");
                last = place + half;
            }
        }
        canvas.put(
            &self.x.label,
            (LEFT + x.end) / 2.0,
            y.start + 33.0,
            Anchor::Middle,
            MUTED,
            "font-size:11px",
        );
        let middle = (y.start + y.end) / 2.0;
        canvas.body.push_str(&format!("<text transform=\"translate(11 {}) rotate(-90)\" text-anchor=\"middle\" style=\"fill:{MUTED};font-size:11px\">{}</text>\n",
            at(middle),
            super::escape(&self.y.label)));
    }

    /// Names at the right ends of the lines, pushed apart where they would touch.
    fn label_ends(&self, canvas: &mut Canvas, y: &Map, right: f64) {
        let mut ends: Vec<(f64, &Series)> = self
            .series
            .iter()
            .filter_map(|series| {
                let last = series
                    .points
                    .iter()
                    .rev()
                    .find_map(|(_, value)| value.filter(|value| value.is_finite()))?;
                Some((y.put(last) + 4.0, series))
            })
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        for index in 1..ends.len() {
            ends[index].0 = ends[index].0.max(ends[index - 1].0 + 14.0);
        }
        let over = ends.last().map_or(0.0, |end| (end.0 - y.start - 4.0).max(0.0));
        for (level, series) in &ends {
            canvas.put(
                &series.name,
                right + 7.0,
                level - over,
                Anchor::Start,
                color(series.color),
                "font-weight:600",
            );
        }
    }
}

fn draw(canvas: &mut Canvas, series: &Series, x: &Map, y: &Map) {
    let stroke = color(series.color);
    for run in runs(series, x) {
        let points: Vec<(f64, f64)> = run.iter().map(|(px, py)| (x.put(*px), y.put(*py))).collect();
        let Some(first) = points.first() else { continue };
        if points.len() == 1 {
            canvas.circle(first.0, first.1, 2.6, stroke);
            continue;
        }
        let mut path = format!("M{} {}", at(first.0), at(first.1));
        for pair in points.windows(2) {
            if series.shape != Shape::Line {
                path.push_str(&format!("H{}", at(pair[1].0)));
                path.push_str(&format!("V{}", at(pair[1].1)));
            } else {
                path.push_str(&format!("L{} {}", at(pair[1].0), at(pair[1].1)));
            }
        }
        if series.shape == Shape::Area {
            canvas.body.push_str(&format!(
                "<path d=\"{path}V{}H{}Z\" style=\"fill:{stroke};fill-opacity:.14\"/>\n",
                at(y.start),
                at(first.0)
            ));
        }
        canvas.body.push_str(&format!("<path d=\"{path}\" style=\"fill:none;stroke:{stroke};stroke-width:1.9;stroke-linejoin:round;stroke-dasharray:{}\"/>\n",
            dash_or_none(series.color)));
    }
}

/// The stretches of a series between its gaps.
fn runs(series: &Series, x: &Map) -> Vec<Vec<(f64, f64)>> {
    let mut out = vec![Vec::new()];
    for (px, py) in &series.points {
        let shown = px.is_finite() && (x.scale == Scale::Linear || *px > 0.0);
        match py.filter(|value| value.is_finite() && shown) {
            Some(value) => {
                if let Some(run) = out.last_mut() {
                    run.push((*px, value));
                }
            }
            None if out.last().is_some_and(|run| !run.is_empty()) => out.push(Vec::new()),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> LineChart {
        LineChart {
            head: Head {
                id: "c".into(),
                title: "Latency".into(),
                description: "p50".into(),
                mark: Some("SIMULATED".into()),
            },
            x: Axis { label: "s".into(), ..Axis::default() },
            y: Axis { label: "ms".into(), ..Axis::default() },
            series: vec![Series {
                name: "p50".into(),
                points: vec![(0.0, Some(10.0)), (1.0, Some(12.0)), (2.0, None), (3.0, Some(11.0))],
                ..Series::default()
            }],
            references: vec![Reference { value: 20.0, label: "<= 20 ms".into() }],
            empty: "no data".into(),
            ..LineChart::default()
        }
    }

    #[test]
    fn a_small_chart_is_what_it_was() {
        insta::assert_snapshot!(chart().render());
    }

    #[test]
    fn a_limit_off_the_scale_is_a_label_and_no_line() {
        let mut chart = chart();
        let dashed = |svg: &str| svg.matches("stroke-dasharray:5 3").count();
        assert_eq!(dashed(&chart.render()), 1);
        chart.references[0] = Reference { value: 600.0, label: "<= 600 ms".into() };
        let svg = chart.render();
        assert!(dashed(&svg) == 0 && svg.contains("600 ms ↑"), "{svg}");
    }

    #[test]
    fn empty_and_impossible_data_say_so() {
        let mut chart = chart();
        chart.series[0].points = vec![(0.0, None), (1.0, Some(f64::NAN)), (f64::INFINITY, Some(1.0))];
        let svg = chart.render();
        assert!(
            svg.contains("no data")
                && svg.contains("SIMULATED")
                && !svg.contains("NaN")
                && !svg.contains("inf")
        );
        chart.series[0].points = vec![(1.0, Some(1e300)), (1.0, Some(0.0))];
        assert!(!chart.render().contains("NaN"));
    }
}
