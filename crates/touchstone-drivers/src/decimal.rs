//! Decimal numbers to and from bytes, without allocation.

/// Appends `value` in decimal.
pub(crate) fn push(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `value` in exactly `WIDTH` digits, padded with zeros; higher digits are cut.
#[cfg(any(test, feature = "cache"))]
pub(crate) fn push_padded<const WIDTH: usize>(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; WIDTH];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits);
}

/// Reads a number that consists of digits only; none when it is empty, has other bytes, or does not fit.
pub(crate) fn parse(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_round_trip() {
        for value in [0, 7, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            push(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            assert_eq!(parse(&out), Some(value));
        }
        let mut out = Vec::new();
        push_padded::<5>(&mut out, 42);
        assert_eq!(out, b"00042");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-1", "+1", " 1", "1a", "18446744073709551616", "000000000000000000000"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
