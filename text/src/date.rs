//! Dates as `strftime` writes them, in the C locale.

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The longest date that is written.
const MAX_LEN: usize = 1 << 16;

/// A second of the calendar.
struct Date {
    year: i64,
    /// From 0.
    month: usize,
    /// From 1.
    day: i64,
    /// From 0, Sunday.
    weekday: usize,
    /// From 1.
    of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_len(year: i64, month: usize) -> i64 {
    match month {
        1 => 28 + i64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

impl Date {
    /// The date of a second since 1970.
    fn of(seconds: i64) -> Date {
        const DAYS_OF_400_YEARS: i64 = 146_097;
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let weekday = (days + 4).rem_euclid(7) as usize;
        let mut year = 1970 + days.div_euclid(DAYS_OF_400_YEARS) * 400;
        let mut left = days.rem_euclid(DAYS_OF_400_YEARS);
        while left >= 365 + i64::from(is_leap(year)) {
            left -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        let of_year = left + 1;
        let mut month = 0;
        while left >= month_len(year, month) {
            left -= month_len(year, month);
            month += 1;
        }
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Date { year, month, day: left + 1, weekday, of_year, hour, minute, second }
    }
}

/// A date in a format.
pub(crate) fn strftime(format: &str, seconds: i64) -> Result<String, String> {
    let d = Date::of(seconds);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if out.len() > MAX_LEN {
            return Err("the format is too long".into());
        }
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        // `%-d` is a number without leading zeros.
        let plain = code == Some('-');
        if plain {
            code = chars.next();
        }
        let two = |n: i64| if plain { n.to_string() } else { format!("{n:02}") };
        let hour12 = (d.hour + 11) % 12 + 1;
        let text = match code {
            Some('Y') => d.year.to_string(),
            Some('y') => two(d.year.rem_euclid(100)),
            Some('m') => two(d.month as i64 + 1),
            Some('d') => two(d.day),
            Some('e') => format!("{:2}", d.day),
            Some('H') => two(d.hour),
            Some('I') => two(hour12),
            Some('M') => two(d.minute),
            Some('S') => two(d.second),
            Some('j') if plain => d.of_year.to_string(),
            Some('j') => format!("{:03}", d.of_year),
            Some('p') => if d.hour < 12 { "AM" } else { "PM" }.into(),
            Some('B') => MONTHS[d.month].into(),
            Some('b' | 'h') => MONTHS[d.month][..3].into(),
            Some('A') => DAYS[d.weekday].into(),
            Some('a') => DAYS[d.weekday][..3].into(),
            Some('w') => d.weekday.to_string(),
            Some('u') => (if d.weekday == 0 { 7 } else { d.weekday }).to_string(),
            Some('f') => "000000".into(),
            Some('s') => seconds.to_string(),
            Some('z' | 'Z') => String::new(),
            Some('n') => "\n".into(),
            Some('t') => "\t".into(),
            Some('%') => "%".into(),
            Some('F') => strftime("%Y-%m-%d", seconds)?,
            Some('T' | 'X') => strftime("%H:%M:%S", seconds)?,
            Some('R') => strftime("%H:%M", seconds)?,
            Some('D' | 'x') => strftime("%m/%d/%y", seconds)?,
            Some('c') => strftime("%a %b %e %H:%M:%S %Y", seconds)?,
            Some(other) => return Err(format!("the directive %{other} is not known")),
            None => return Err("the format ends within a directive".into()),
        };
        out.push_str(&text);
    }
    Ok(out)
}
