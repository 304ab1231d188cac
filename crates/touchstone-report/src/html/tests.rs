use super::*;
use crate::fixtures;
use touchstone_model::RunDocument;

/// Checks that tags balance and attributes are quoted; returns the names of the elements that were opened.
pub(crate) fn well_formed(html: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let mut open: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    let body = match (html.find("<style>"), html.find("</style>")) {
        (Some(from), Some(to)) => format!("{}{}", &html[..from], &html[to + 8..]),
        _ => html.to_owned(),
    };
    let mut rest = body.as_str();
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a bare > before {}", &rest[..at.min(80)]);
        let end = rest[at..].find('>').unwrap_or_else(|| panic!("unclosed tag: {}", &rest[at..])) + at;
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<'), "tag in a tag: {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default().to_owned();
        if let Some(closing) = tag.strip_prefix('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(closing),
                "after {}",
                &body[..body.len() - rest.len() + at]
            );
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
            seen.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "unclosed: {open:?}");
    seen
}

fn svgs(html: &str) -> Vec<&str> {
    html.match_indices("<svg").map(|(at, _)| &html[at..at + html[at..].find("</svg>").unwrap()]).collect()
}

/// What must hold for every page.
fn sound(html: &str) {
    let tags = well_formed(html);
    assert!(
        !tags.iter().any(|tag| tag == "script" || tag == "link" || tag == "img"),
        "external or active content"
    );
    for word in html.split(|c: char| !c.is_ascii_alphabetic()) {
        assert!(!matches!(word, "NaN" | "inf" | "Infinity"), "{word} in a page");
    }
    let ids: Vec<&str> =
        html.match_indices(" id=\"").map(|(at, _)| html[at + 5..].split('"').next().unwrap()).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "ids repeat");
    for (at, _) in html.match_indices("href=\"#") {
        let to = html[at + 7..].split('"').next().unwrap();
        assert!(ids.contains(&to), "link to nothing: {to}");
    }
    let addresses = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("src=") && !addresses.contains("url("), "external resource");
    assert!(!html.contains('\u{1b}'));
}

fn runs() -> Vec<RunDocument> {
    vec![fixtures::run(), fixtures::failed_run(), fixtures::huge_run()]
}

#[test]
fn pages_of_runs_are_sound() {
    for lang in [Lang::En, Lang::Zh] {
        for run in runs() {
            sound(&run_report(&[run], lang));
        }
        sound(&run_report(&runs(), lang));
        sound(&run_report(&[], lang));
    }
}

#[test]
fn pages_of_decisions_are_sound() {
    let candidates = vec![("paged-fast".to_owned(), runs()), ("<i>".to_owned(), vec![])];
    for lang in [Lang::En, Lang::Zh] {
        sound(&decision_report(&fixtures::decision(), &candidates, lang));
        sound(&decision_report(&fixtures::decision(), &[], lang));
        sound(&decision_report(&fixtures::empty_decision(), &[], lang));
        let mut broken = fixtures::decision();
        broken.ranking.pairwise = vec![vec![f64::NAN]];
        broken.ranking.acceptability = vec![vec![f64::INFINITY], vec![]];
        broken.ranking.robust.clear();
        broken.flips[0].to_value = f64::INFINITY;
        broken.evidence.clear();
        sound(&decision_report(&broken, &[], lang));
    }
}

#[test]
fn every_chart_and_section_of_a_simulated_run_says_so() {
    for (lang, mark) in [(Lang::En, "SIMULATED"), (Lang::Zh, "模拟")] {
        let page = run_report(&[fixtures::run()], lang);
        let charts = svgs(&page);
        assert_eq!(charts.len(), 8);
        // The badge and the watermark; the bare word stands in the title too.
        assert!(charts.iter().all(|svg| svg.matches(&format!(">{mark}<")).count() == 2), "{mark}");
        let headings: Vec<&str> =
            page.match_indices("<h2>").map(|(at, _)| page[at..].split("</h2>").next().unwrap()).collect();
        let about_runs = headings.len() - 1;
        assert_eq!(
            headings.iter().filter(|heading| heading.contains(mark)).count(),
            about_runs,
            "{headings:?}"
        );
        assert!(page.contains(&format!("<title>[{mark}] ")));

        let candidates = [("paged-fast".to_owned(), vec![fixtures::run()])];
        let page = decision_report(&fixtures::decision(), &candidates, lang);
        let charts = svgs(&page);
        assert_eq!(charts.len(), 9);
        assert!(charts.iter().all(|svg| svg.matches(&format!(">{mark}<")).count() == 2));
    }
}

#[test]
fn a_measured_run_never_says_simulated() {
    let mut run = fixtures::run();
    run.simulated = false;
    run.level = touchstone_model::Level::P2;
    run.findings.clear();
    run.target.product = None;
    assert!(!run_report(&[run], Lang::En).to_lowercase().contains("simulat"));
    assert!(
        svgs(&run_report(&[fixtures::huge_run()], Lang::En)).iter().all(|svg| svg.contains(">SIMULATED<"))
    );
}

#[test]
fn an_invalid_run_says_so_in_every_chart() {
    let page = run_report(&[fixtures::failed_run()], Lang::En);
    assert!(svgs(&page).iter().all(|svg| svg.contains(">INVALID<")));
    assert!(page.contains("INTERRUPTED"));
}

#[test]
fn what_comes_from_outside_is_text() {
    let page = run_report(&[fixtures::run()], Lang::En);
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
    let mut run = fixtures::run();
    let evil = "\"><script>x</script><!--";
    run.run = evil.into();
    run.target.target = evil.into();
    run.target.model = Some(evil.into());
    run.workload.arrival = evil.into();
    run.slo[0].slo = evil.into();
    run.errors[0].kind = evil.into();
    run.findings[0].advice = evil.into();
    run.workload.parameters.insert(evil.into(), evil.into());
    sound(&run_report(&[run], Lang::En));
    let mut document = fixtures::decision();
    document.scenario = evil.into();
    document.candidates[0].name = evil.into();
    document.ranking.contenders[0] = evil.into();
    document.statements[0].text = evil.into();
    document.candidates[0].gates[1].requirement = evil.into();
    document.evidence[0].label = evil.into();
    sound(&decision_report(&document, &[(evil.into(), vec![fixtures::run()])], Lang::En));
}

#[test]
fn a_backtick_makes_code_and_a_single_one_stays() {
    assert_eq!(prose("use `a<b` now"), "use <code>a&lt;b</code> now");
    assert_eq!(prose("5` wide"), "5` wide");
}

#[test]
fn pages_are_what_they_were() {
    // The style sheet is a file of its own; what is kept here is the body.
    let body = |page: String| page[page.find("<body>").unwrap()..].to_owned();
    insta::assert_snapshot!("run_report", body(run_report(&[fixtures::run()], Lang::En)));
    insta::assert_snapshot!("failed_run_report_zh", body(run_report(&[fixtures::failed_run()], Lang::Zh)));
    insta::assert_snapshot!(
        "decision_report_zh",
        body(decision_report(&fixtures::decision(), &[], Lang::Zh))
    );
}

#[test]
#[should_panic(expected = "unclosed")]
fn the_checker_sees_what_is_open() {
    well_formed("<p><b>x</b>");
}
