//! Reading catalog files: problems with their place, overlays, and the schema.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use touchstone_catalog::{CATALOG_FORMAT, Catalog, PRODUCT_FORMAT, product_schema};
use touchstone_model::{CapabilityId, Family, Problem};

const CATALOG: &str = "format: touchstone.catalog/1\ndate: 2026-11-30\n";

const GOOD: &str = "format: touchstone.product/1
id: my-queue
name: My queue
family: queue
vendor: me
licence: MIT
summary: {en: A queue, zh: 队列}
configurations:
  - {id: plain, default: true, summary: {en: Plain, zh: 普通}}
claims:
  - {capability: delivery, value: at-least-once, source: my page, date: 2026-01-02, level: P0}
  - {capability: retention, value: 7d, source: my page, date: 2026-01-02, level: P0, versions: '>=1, <2'}
forbidden:
  - id: no-priorities
    when: [priorities = yes, nodes >= 2]
    reason: {en: none, zh: 没有}
    source: my page
    date: 2026-01-02
    level: P0
remarks:
  - {text: {en: fast, zh: 很快}, metric: end_to_end_latency.p99, value: 3ms, source: my page, date: 2026-01-02, level: P0}
";

fn parse(product: &str) -> Result<Catalog, Vec<Problem>> {
    Catalog::parse(&[("catalog.yaml", CATALOG), ("queue/my-queue.yaml", product)])
        .map_err(|error| error.problems)
}

fn problem(from: &str, to: &str) -> Problem {
    assert!(GOOD.contains(from), "{from}");
    let mut problems = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.remove(0)
}

#[test]
fn a_good_file_is_read() {
    let catalog = parse(GOOD).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(catalog.date(), "2026-11-30");
    assert_eq!(catalog.products(Family::Queue).count(), 1);
    let retention = |version| catalog.claim("my-queue", None, CapabilityId::Retention, version).is_some();
    assert!(retention(Some("1.5")) && !retention(Some("2.0")) && !retention(None) && !retention(Some("odd")));
    assert!(catalog.claim("my-queue", None, CapabilityId::Durability, None).is_none());
    assert!(catalog.claim("other", None, CapabilityId::Delivery, None).is_none());
}

#[test]
fn problems_carry_file_line_column_and_hint() {
    // The place is that of `at` in line `line` of the changed file.
    for (from, to, line, at, message) in [
        ("product/1", "product/9", 1, "touchstone.product", "this version reads"),
        ("id: my-queue", "id: My Queue", 2, "My Queue", "is no id"),
        ("default: true", "default: false", 2, "my-queue", "expected exactly 1"),
        ("capability: delivery", "capability: delivry", 11, "delivry", "did you mean `delivery`"),
        ("capability: delivery", "capability: streaming", 11, "streaming", "means nothing for queue"),
        ("at-least-once", "sometimes", 11, "sometimes", "expected one of at-most-once"),
        ("date: 2026-01-02", "date: 2026-13-02", 11, "2026-13-02", "is no date"),
        ("'>=1, <2'", "'1 to 2'", 12, "'1 to 2'", "is no version range"),
        ("value: 7d", "value: long", 12, "long", "is no value of `retention`"),
        ("nodes >= 2", "node >= 2", 15, "node >=", "`nodes` meant?"),
        ("value: 3ms", "value: fast", 21, "fast, source", "is not a number"),
        ("level: P0}", "level: P2}", 11, "delivery", "above P1"),
        ("source: my page,", "source: '',", 11, "delivery", "the source is empty"),
        ("zh: 没有", "zh: ''", 14, "no-priorities", "empty in one language"),
        ("when: [priorities = yes, nodes >= 2]", "when: []", 14, "no-priorities", "no condition"),
        ("P0, versions", "P0, status: disputed, versions", 12, "retention", "disputed without `dispute`"),
        ("metric: end_to_end_latency.p99, ", "", 21, "3ms", "belong together"),
    ] {
        let problem = problem(from, to);
        let text = GOOD.replacen(from, to, 1);
        let column = text
            .lines()
            .nth(line as usize - 1)
            .and_then(|text| text.find(at).map(|bytes| text[..bytes].chars().count() as u64 + 1));
        assert_eq!(problem.file, "queue/my-queue.yaml");
        assert!(problem.message.contains(message), "{to}: {problem}");
        assert_eq!((problem.line, Some(problem.column)), (line, column), "{to}: {problem}");
        assert!(problem.hint.is_some(), "{to}: {problem}");
    }
}

#[test]
fn shape_errors_come_from_the_reader_with_their_place() {
    let missing = problem("vendor: me\n", "");
    assert!(missing.message.contains("vendor"), "{missing}");
    let unknown = problem("vendor: me", "vendor: me\ncolour: red");
    assert_eq!(unknown.line, 6, "{unknown}");
    let twice = problem("vendor: me", "vendor: me\nvendor: you");
    assert_eq!(twice.line, 6, "{twice}");
}

#[test]
fn all_problems_of_all_files_are_listed() {
    let broken = GOOD.replace("at-least-once", "often").replace("value: 7d", "value: long");
    let files = [
        ("catalog.yaml", "format: touchstone.catalog/2\ndate: today\n"),
        ("a.yaml", &broken),
        ("b.yaml", GOOD),
        ("c.yaml", GOOD),
    ];
    let problems = Catalog::parse(&files).unwrap_err().problems;
    let places: Vec<(&str, u64)> =
        problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
    assert_eq!(places, [("catalog.yaml", 1), ("a.yaml", 11), ("a.yaml", 12), ("c.yaml", 0)]);
    assert!(problems[3].message.contains("already in b.yaml"));
}

#[test]
fn the_catalog_file_is_needed_and_checked() {
    let missing = Catalog::parse(&[("a.yaml", GOOD)]).unwrap_err();
    assert!(missing.to_string().contains("catalog.yaml: the file is missing"), "{missing}");
    let date =
        Catalog::parse(&[("catalog.yaml", "format: touchstone.catalog/1\ndate: today\n")]).unwrap_err();
    assert_eq!((date.problems[0].line, date.problems[0].column), (2, 7));
    assert_eq!((CATALOG_FORMAT, PRODUCT_FORMAT), ("touchstone.catalog/1", "touchstone.product/1"));
}

#[test]
fn an_overlay_replaces_by_id_and_adds() {
    let shipped = Catalog::shipped().unwrap();
    let own_kafka = GOOD.replace("id: my-queue", "id: kafka");
    let overlay = [("mine/kafka.yaml", own_kafka.as_str()), ("mine/queue.yaml", GOOD)];
    let catalog = shipped.clone().with_overlay(&overlay).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(catalog.all_products().len(), shipped.all_products().len() + 1);
    assert_eq!(catalog.product("kafka").unwrap().name, "My queue");
    assert_eq!(catalog.product("kafka").unwrap().file, "mine/kafka.yaml");
    assert_eq!(catalog.date(), shipped.date());
    let names: Vec<&str> = catalog.files().iter().map(|(name, _)| name.as_str()).collect();
    assert!(!names.contains(&"queue/kafka.yaml") && names.contains(&"mine/kafka.yaml"));
    assert!(names.is_sorted());
    let ids: Vec<_> =
        catalog.all_products().iter().map(|product| (product.family, product.id.clone())).collect();
    assert!(ids.is_sorted());

    let dated =
        shipped.clone().with_overlay(&[("catalog.yaml", "format: touchstone.catalog/1\ndate: 2027-01-31\n")]);
    let dated = dated.unwrap();
    assert_eq!(dated.date(), "2027-01-31");
    assert_eq!(dated.files().len(), shipped.files().len());

    let clash = shipped.with_overlay(&[("queue/kafka.yaml", GOOD)]).unwrap_err();
    assert!(clash.to_string().contains("has a file of this name"), "{clash}");
}

#[test]
fn the_order_of_files_does_not_matter() {
    let shipped = Catalog::shipped().unwrap();
    let mut reversed = shipped.files().to_vec();
    reversed.reverse();
    assert_eq!(Catalog::parse(&reversed).unwrap(), shipped);
}

#[test]
fn the_schema_names_every_field() {
    let schema = product_schema();
    let text = format!("{schema:?}");
    for field in
        ["configurations", "claims", "forbidden", "recommended", "remarks", "unknown", "detect", "serves"]
    {
        assert!(text.contains(field), "{field}");
    }
}
