//! A curve in the terminal, drawn with Braille dots: two across and four down in each cell.

/// Dots of a cell.
const ACROSS: usize = 2;
const DOWN: usize = 4;
/// The Braille cell without dots; dots are bits added to it.
const BLANK: u32 = 0x2800;
/// Bit of each dot, by row and column; the last row came to Braille later than the others, hence its numbers.
const DOTS: [[u32; ACROSS]; DOWN] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// `values` from left to right as a curve of `columns` by `rows` cells, with the axes labelled; a last line break ends
/// it. Values that are not finite leave a gap.
pub(crate) fn curve(values: &[f32], columns: usize, rows: usize) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f32::INFINITY, f32::min);
    let high = finite().fold(f32::NEG_INFINITY, f32::max);
    let cells = cells(values, low, high, columns, rows);

    let label = |row: usize| match row {
        _ if low > high => String::new(),
        0 => format!("{high:.3}"),
        row if row + 1 == rows => format!("{low:.3}"),
        _ => String::new(),
    };
    let width = (0..rows).map(|row| label(row).len()).max().unwrap_or(0);
    let mut text = String::new();
    for (row, cells) in cells.chunks(columns).enumerate() {
        let line: String = cells.iter().map(|&dots| char::from_u32(BLANK + dots).unwrap_or(' ')).collect();
        text += &format!("{:>width$} ┤{}\n", label(row), line.trim_end_matches('\u{2800}'));
    }
    let last = values.len().to_string();
    text + &format!("{:width$} └{}\n{:width$}  1{last:>columns$}\n", "", "─".repeat(columns), "", columns = columns - 1)
}

/// Dots of each cell, row by row.
fn cells(values: &[f32], low: f32, high: f32, columns: usize, rows: usize) -> Vec<u32> {
    let (width, height) = (columns * ACROSS, rows * DOWN);
    let mut cells = vec![0; columns * rows];
    let row_of = |value: f32| {
        let share = if high > low { (high - value) / (high - low) } else { 0.5 };
        ((share * (height - 1) as f32).round() as usize).min(height - 1)
    };
    for x in 0..width {
        let Some((least, most)) = extremes(values, x, width) else { continue };
        for y in row_of(most)..=row_of(least) {
            cells[y / DOWN * columns + x / ACROSS] |= DOTS[y % DOWN][x % ACROSS];
        }
    }
    cells
}

/// The least and greatest value that the curve takes from dot `x` to the next, straight lines between values.
fn extremes(values: &[f32], x: usize, width: usize) -> Option<(f32, f32)> {
    let last = values.len().checked_sub(1)?;
    let position = |x: usize| (x as f64 / (width - 1) as f64 * last as f64).min(last as f64);
    let (from, to) = (position(x), position(x + 1));
    let at = |position: f64| {
        let below = position.floor() as usize;
        let above = (below + 1).min(last);
        let share = (position - below as f64) as f32;
        if share == 0.0 { values[below] } else { values[below] * (1.0 - share) + values[above] * share }
    };
    let between = values[from.ceil() as usize..=to.floor() as usize].iter().copied();
    let taken = between.chain([at(from), at(to)]).filter(|value| value.is_finite());
    taken.fold(None, |extremes, value| match extremes {
        None => Some((value, value)),
        Some((least, most)) => Some((value.min(least), value.max(most))),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(values: &[f32], expected: &Expect) {
        expected.assert_eq(&curve(values, 16, 4));
    }

    #[test]
    fn a_falling_curve() {
        let values: Vec<_> = (0..200).map(|i| 2.5 * (-i as f32 / 40.0).exp()).collect();
        check(
            &values,
            &expect![[r#"
            2.500 ┤⢧
                  ┤⠈⢧⡀
                  ┤⠀⠀⠙⢦⡀
            0.017 ┤⠀⠀⠀⠀⠉⠓⠲⠤⠤⠤⣄⣀⣀⣀⣀⣀
                  └────────────────
                   1            200
        "#]],
        );
    }

    #[test]
    fn few_values_are_joined_by_lines() {
        check(
            &[0.0, 1.0, 0.0],
            &expect![[r#"
            1.000 ┤⠀⠀⠀⠀⠀⢀⡴⠋⠳⣄
                  ┤⠀⠀⠀⢀⡴⠋⠀⠀⠀⠈⠳⣄
                  ┤⠀⢀⡴⠋⠀⠀⠀⠀⠀⠀⠀⠈⠳⣄
            0.000 ┤⡴⠋⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠈⠳⣄
                  └────────────────
                   1              3
        "#]],
        );
    }

    #[test]
    fn a_constant_runs_through_the_middle() {
        check(
            &[1.0; 5],
            &expect![[r#"
            1.000 ┤
                  ┤
                  ┤⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉
            1.000 ┤
                  └────────────────
                   1              5
        "#]],
        );
    }

    #[test]
    fn one_value_and_none() {
        check(
            &[3.0],
            &expect![[r#"
            3.000 ┤
                  ┤
                  ┤⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉
            3.000 ┤
                  └────────────────
                   1              1
        "#]],
        );
        assert_eq!(curve(&[], 16, 4).lines().count(), 6, "axes without a curve");
    }

    #[test]
    fn a_value_that_is_not_finite_leaves_a_gap() {
        check(
            &[0.0, 1.0, f32::NAN, 1.0, 0.0],
            &expect![[r#"
            1.000 ┤⠀⠀⢀⡞⠀⠀⠀⠀⠀⠀⠀⠘⣆
                  ┤⠀⢀⡞⠀⠀⠀⠀⠀⠀⠀⠀⠀⠘⣆
                  ┤⢀⡞⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠘⣆
            0.000 ┤⡞⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠘⣆
                  └────────────────
                   1              5
        "#]],
        );
    }
}
