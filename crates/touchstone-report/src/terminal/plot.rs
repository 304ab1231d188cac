//! Small plots of text.

use crate::terminal::Style;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ',', '-', '~', '=', '+', '#'];

/// One character per value from 0 to `top`; gaps where there is no value. More values than `columns` are pooled, each
/// pool shown by its greatest, so that no excursion is lost.
pub(crate) fn sparkline(values: &[Option<f64>], top: f64, columns: usize, style: &Style) -> String {
    let marks = if style.unicode { BLOCKS } else { ASCII };
    let pools = columns.min(values.len()).max(1);
    (0..pools)
        .map(|pool| {
            let range = pool * values.len() / pools..(pool + 1) * values.len() / pools;
            let greatest = values.get(range).unwrap_or_default().iter().flatten().copied().reduce(f64::max);
            match greatest {
                Some(value) if value.is_finite() && top > 0.0 => {
                    marks[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1]
                }
                Some(value) if value.is_finite() => marks[0],
                _ => ' ',
            }
        })
        .collect()
}

/// A bar of `share` of `columns`, to an eighth of a column where the character set allows.
pub(crate) fn bar(share: f64, columns: usize, style: &Style) -> String {
    if !share.is_finite() || share <= 0.0 {
        return String::new();
    }
    let share = share.min(1.0);
    if !style.unicode {
        return "#".repeat(((share * columns as f64).round() as usize).max(1));
    }
    let eighths = ((share * columns as f64 * 8.0).round() as usize).max(1);
    let mut out = "█".repeat(eighths / 8);
    if let Some(part) = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)) {
        out.push(*part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_scale_and_keep_excursions() {
        let style = Style::default();
        let ascii = Style { unicode: false, ..style };
        let values: Vec<_> = (0..=8).map(|v| Some(f64::from(v))).collect();
        assert_eq!(sparkline(&values, 8.0, 20, &style), "▁▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[Some(1.0), Some(9.0), None, None], 9.0, 2, &ascii), "# ");
        assert_eq!(sparkline(&[Some(f64::NAN), Some(0.0)], 0.0, 9, &style), " ▁");
        assert_eq!(sparkline(&[], 1.0, 9, &style), " ");
        assert_eq!(
            (bar(0.5, 4, &style), bar(0.03, 4, &ascii), bar(f64::NAN, 4, &style)),
            ("██".into(), "#".into(), String::new())
        );
        assert_eq!(bar(9.0, 3, &style), "███");
    }
}
