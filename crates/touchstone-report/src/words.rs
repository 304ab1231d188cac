//! Every phrase that a reader sees, in English and in Chinese, side by side so that neither is forgotten.
//!
//! Ids (metrics, findings, requirements) are the same in both languages: they are names, not words.

use std::fmt;
use std::str::FromStr;

use touchstone_model::decision::{Flip, GateKind, Status, Word};
use touchstone_model::run::Outcome;
use touchstone_model::{Family, Level, MetricId, Origin, Phase, Severity, Unit};

/// The language of what is rendered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

impl Lang {
    /// The name on the command line: `en` or `zh`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Zh => "zh",
        }
    }

    /// The BCP 47 tag for documents.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Zh => "zh-Hans",
        }
    }

    /// Chooses between two texts.
    pub(crate) fn pick<T>(self, en: T, zh: T) -> T {
        match self {
            Lang::En => en,
            Lang::Zh => zh,
        }
    }

    /// The phrases of this language.
    pub(crate) fn words(self) -> &'static Words {
        self.pick(&EN, &ZH)
    }
}

impl fmt::Display for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no language that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLang {
    /// The text as written.
    pub text: String,
}

impl fmt::Display for UnknownLang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown language `{}`; expected en or zh", self.text)
    }
}

impl std::error::Error for UnknownLang {}

impl FromStr for Lang {
    type Err = UnknownLang;
    fn from_str(text: &str) -> Result<Self, UnknownLang> {
        match text {
            "en" => Ok(Lang::En),
            "zh" => Ok(Lang::Zh),
            _ => Err(UnknownLang { text: text.to_owned() }),
        }
    }
}

macro_rules! words {
    ($($name:ident: $en:literal, $zh:literal;)+) => {
        /// The fixed phrases of one language.
        pub(crate) struct Words { $(pub(crate) $name: &'static str),+ }
        const EN: Words = Words { $($name: $en),+ };
        const ZH: Words = Words { $($name: $zh),+ };
    };
}

words! {
    // Marks.
    simulated: "SIMULATED", "模拟";
    invalid: "INVALID", "无效";
    interrupted: "INTERRUPTED", "已中断";
    no_product_measured: "The figures come from a simulator. None of them is a measurement of a product.", "本页数据来自模拟器，不是对任何产品的实测。";
    invalid_explained: "This run is invalid: its figures say nothing about the target. The findings say why.", "本次运行无效：数据不能说明目标的性能，原因见“发现”。";
    interrupted_explained: "The run was ended before its time; figures cover what had been measured until then.", "运行提前结束；数据只覆盖结束之前测得的部分。";
    // A run.
    colon: ": ", "：";
    comma: ", ", "，";
    run: "run", "运行";
    run_report: "Load test report", "压测报告";
    level: "level", "证据等级";
    target: "target", "目标";
    model: "model", "模型";
    product: "product", "产品";
    arrival: "arrival", "到达过程";
    seed: "seed", "随机种子";
    started: "started", "开始时间";
    schedule: "schedule", "发送计划";
    fingerprint: "environment fingerprint", "环境指纹";
    parameters: "parameters", "参数";
    rates: "rates", "速率";
    offered: "offered", "计划";
    achieved: "achieved", "发出";
    throughput: "throughput", "吞吐";
    goodput: "goodput", "有效吞吐";
    output_tokens: "output tokens", "输出词元";
    closed_loop: "none (closed loop)", "无（闭环）";
    counts: "operations", "操作数";
    intended: "intended", "计划";
    sent: "sent", "发出";
    completed: "completed", "成功";
    failed: "failed", "失败";
    unfinished: "unfinished", "未完成";
    within_slo: "within every SLO", "满足全部 SLO";
    lost: "lost", "丢失";
    received: "received", "接收";
    duplicated: "duplicated", "重复";
    reordered: "reordered", "乱序";
    lookups: "lookups", "查询";
    hits: "hits", "命中";
    connections: "connections", "连接";
    bytes_sent: "bytes sent", "发送字节";
    bytes_received: "bytes received", "接收字节";
    warm_up: "warm-up", "预热";
    measured: "measured", "测量";
    drain: "drain", "排空";
    metric: "metric", "指标";
    unit: "unit", "单位";
    mean: "mean", "均值";
    max: "max", "最大";
    upper_bound: "upper bound", "上界";
    bounds: "bounds", "置信界";
    among_failures: "falls among failed operations", "分位点落在失败操作中";
    no_upper_bound: "has no upper bound", "没有置信上界";
    not_measured: "not measured", "未测量";
    no_distribution: "no operation was measured", "没有测到任何操作";
    slo: "SLO", "SLO";
    requirement: "requirement", "要求";
    outcome: "outcome", "结果";
    value: "value", "取值";
    share_within: "share within", "达标占比";
    errors: "errors", "错误";
    no_errors: "no errors", "没有错误";
    origin: "origin", "来源";
    phase: "phase", "阶段";
    kind: "kind", "类型";
    count: "count", "次数";
    message: "message", "信息";
    findings: "findings", "发现";
    no_findings: "no findings", "没有发现问题";
    advice: "advice", "建议";
    generator: "generator", "负载发生器";
    certificate: "generator certificate", "负载发生器证明";
    scheduling_error: "scheduling error", "调度误差";
    shards: "shards", "分片";
    busiest_core: "busiest core", "最忙核心";
    cpu_per_operation: "CPU per operation", "每次操作 CPU";
    receive_stamps: "receive stamps", "接收时间戳";
    kernel: "kernel", "内核";
    user_space: "user space", "用户态";
    coalesced: "coalesced events", "合并到达的事件";
    loopback_ceiling: "loopback ceiling", "回环上限";
    clock_steps: "clock steps", "时钟跳变";
    events_dropped: "events dropped", "丢弃事件";
    not_probed: "not probed", "未测";
    course: "course of the run", "运行过程";
    latency: "latency", "延迟";
    in_flight: "in flight", "在途";
    time_axis: "time since the start of warm-up", "预热开始后的时间";
    distribution: "latency distribution", "延迟分布";
    share_at_most: "share of operations", "操作占比";
    all_figures: "all figures", "全部数据";
    how_measured: "how it was measured", "测量方法";
    definition: "definition", "定义";
    none: "none", "无";
    runs: "runs", "运行";
    censored_label: "failed", "失败";
    no_data: "no data", "无数据";
    // A decision.
    decision_report: "Decision report", "决策报告";
    verdict: "verdict", "结论";
    candidate: "candidate", "候选";
    candidates: "candidates", "候选";
    status: "status", "状态";
    reason: "reason", "原因";
    durability: "durability", "持久性";
    delivery: "delivery", "投递语义";
    price: "price", "价格";
    ruled_out: "ruled out", "已排除";
    contenders: "contenders", "参选者";
    gates: "gates", "门槛";
    gate_matrix: "gates by candidate", "各候选的门槛结果";
    criteria: "criteria", "评价标准";
    criteria_intervals: "criteria: median with 5 to 95 % of the draws", "评价标准：抽样中位数与 5%–95% 区间";
    worth: "worth", "价值";
    acceptability: "rank acceptability", "名次可接受度";
    pairwise: "pairwise: share of draws in which the row is at least as good as the column", "两两比较：行不逊于列的抽样占比";
    robust: "robust: the same at every vertex of the preferences", "稳健性：在偏好多面体的每个顶点上都成立的占比";
    robust_in_parentheses: "In parentheses: the share that holds at every vertex of the preferences.", "括号内为在偏好多面体每个顶点上都成立的占比。";
    beats: "beats", "胜过";
    regret: "regret p95", "后悔值 p95";
    first_rank: "first rank", "第一名占比";
    flips: "smallest changes that would change the leader", "足以改变领先者的最小变化";
    no_flips: "no single figure changes the leader within its range", "没有任何单个数值能在其范围内改变领先者";
    next_measurement: "next most valuable measurement", "下一项最有价值的测量";
    statements: "statements and their evidence", "陈述及其证据";
    evidence: "evidence", "证据";
    digest: "digest", "摘要";
    label: "what it says", "内容";
    path: "path", "路径";
    candidate_runs: "runs of the candidates", "各候选的运行";
    sealed: "sealed before results were shown", "结果揭示前已封存";
    sealed_late: "SEALED ONLY AFTER RESULTS", "结果之后才封存";
    review_by: "review by", "复审日期";
    catalog: "catalog", "目录";
    draws: "draws", "抽样次数";
    no_contender: "no contender was ranked", "没有参选者可供排名";
    probability: "probability that it changes the leader", "改变领先者的概率";
    settles_gate: "settles a gate", "判定门槛";
    subject: "subject", "对象";
    rests_on: "rests on", "依据";
    intact: "intact", "完好";
    changed: "CHANGED", "已被改动";
    missing: "MISSING", "缺失";
    unread: "not checked", "未检查";
}

/// `run 3 of 5` and the like need an order of words of their own in each language.
pub(crate) fn needs(lang: Lang, needs: u64, has: f64) -> String {
    let (needs, has) = (crate::number::count(needs), crate::number::count(has.max(0.0) as u64));
    lang.pick(format!("needs {needs}, has {has}"), format!("需要 {needs} 个样本，现有 {has}"))
}

/// What a level means, in a word.
pub(crate) fn level(lang: Lang, level: Level) -> String {
    let meaning = match (lang, level) {
        (Lang::En, level) => level.meaning(),
        (Lang::Zh, Level::E) => "模拟或估算",
        (Lang::Zh, Level::P0) => "声称",
        (Lang::Zh, Level::P1) => "他方报告",
        (Lang::Zh, Level::P2) => "有记录的实测",
        (Lang::Zh, Level::P3) => "重复实测",
        (Lang::Zh, Level::P4) => "签名证明",
        (Lang::Zh, Level::P5) => "独立复现",
    };
    lang.pick(format!("{level} ({meaning})"), format!("{level}（{meaning}）"))
}

/// The outcome of a gate or limit.
pub(crate) fn outcome(lang: Lang, outcome: Outcome) -> &'static str {
    match (lang, outcome) {
        (Lang::En, outcome) => outcome.as_str(),
        (Lang::Zh, Outcome::Pass) => "通过",
        (Lang::Zh, Outcome::Fail) => "不通过",
        (Lang::Zh, Outcome::Undetermined) => "未定",
    }
}

/// What became of a candidate.
pub(crate) fn status(lang: Lang, status: Status) -> &'static str {
    match (lang, status) {
        (Lang::En, status) => status.as_str(),
        (Lang::Zh, Status::Vetoed) => "被否决",
        (Lang::Zh, Status::Failed) => "未过门槛",
        (Lang::Zh, Status::Dominated) => "被支配",
        (Lang::Zh, Status::Contender) => "参选",
        (Lang::Zh, Status::Unmeasured) => "未测量",
    }
}

/// The sentence of a flip.
pub(crate) fn flip(lang: Lang, flip: &Flip, unit: Unit) -> String {
    let (from, to) =
        (crate::number::quantity(flip.from_value, unit), crate::number::quantity(flip.to_value, unit));
    let (of, criterion, leader) = (&flip.of, &flip.criterion, &flip.to);
    lang.pick(
        format!("{criterion} of {of} at {to} instead of {from}: {leader} would lead"),
        format!("若 {of} 的 {criterion} 由 {from} 变为 {to}，则 {leader} 领先"),
    )
}

/// What the semantic gates say about a candidate as a whole.
pub(crate) fn match_result(lang: Lang, vetoed: bool, undetermined: bool) -> &'static str {
    match (vetoed, undetermined) {
        (true, _) => lang.pick("ruled out", "已排除"),
        (false, true) => lang.pick("open", "待定"),
        (false, false) => lang.pick("fits", "符合"),
    }
}

/// What kind of test a gate is.
pub(crate) fn gate_kind(lang: Lang, kind: GateKind) -> &'static str {
    match kind {
        GateKind::Semantic => lang.pick("capability", "能力"),
        GateKind::Rule => lang.pick("rule", "规则"),
        GateKind::Statistical => lang.pick("measured", "实测"),
    }
}

/// A verdict word.
pub(crate) fn verdict(lang: Lang, word: Word) -> &'static str {
    lang.pick(word.as_str(), word.zh())
}

/// A family of systems.
pub(crate) fn family(lang: Lang, family: Family) -> &'static str {
    match (lang, family) {
        (Lang::En, family) => family.as_str(),
        (Lang::Zh, Family::Inference) => "推理引擎",
        (Lang::Zh, Family::Queue) => "消息队列",
        (Lang::Zh, Family::Cache) => "缓存",
    }
}

/// How much a finding matters.
pub(crate) fn severity(lang: Lang, severity: Severity) -> &'static str {
    match (lang, severity) {
        (Lang::En, severity) => severity.as_str(),
        (Lang::Zh, Severity::Note) => "提示",
        (Lang::Zh, Severity::Warning) => "警告",
        (Lang::Zh, Severity::Invalid) => "无效",
    }
}

/// Who caused a failure.
pub(crate) fn origin(lang: Lang, origin: Origin) -> &'static str {
    match (lang, origin) {
        (Lang::En, origin) => origin.as_str(),
        (Lang::Zh, Origin::Target) => "目标",
        (Lang::Zh, Origin::Network) => "网络",
        (Lang::Zh, Origin::Generator) => "发生器",
        (Lang::Zh, Origin::Scenario) => "场景",
    }
}

/// At which point an operation failed.
pub(crate) fn phase(lang: Lang, phase: Phase) -> &'static str {
    match (lang, phase) {
        (Lang::En, phase) => phase.as_str(),
        (Lang::Zh, Phase::Slot) => "等待连接槽",
        (Lang::Zh, Phase::Connect) => "建立连接",
        (Lang::Zh, Phase::Send) => "发送请求",
        (Lang::Zh, Phase::Headers) => "等待响应头",
        (Lang::Zh, Phase::Stream) => "读取数据流",
        (Lang::Zh, Phase::Decode) => "解析",
    }
}

/// The definition of a metric, in one sentence.
pub(crate) fn definition(lang: Lang, metric: MetricId) -> &'static str {
    if lang == Lang::En {
        return metric.definition();
    }
    match metric {
        MetricId::Ttft => "从计划开始时刻到第一个含生成内容（文本、推理或工具调用）的数据块",
        MetricId::TtftFromSend => "从请求最后一个字节交给内核到第一个含生成内容的数据块",
        MetricId::TtftAnswer => "从计划开始时刻到第一个非推理内容的数据块",
        MetricId::Icl => "同一请求相邻内容数据块之间的间隔，汇总所有请求",
        MetricId::Itl => "间隔除以后一数据块的词元数，按词元加权；每块词元数未知时为空",
        MetricId::Tpot => "逐请求：（末块时刻 − 首块时刻）/（词元总数 − 首块词元数）；不足两块时无定义",
        MetricId::Ntpot => "逐请求：端到端时间 / 输出词元数",
        MetricId::E2e => "从计划开始时刻到最后一个内容数据块；非流式则到完整响应",
        MetricId::ServiceTime => "从发送到最后一个内容数据块；非流式则到完整响应",
        MetricId::StreamClose => "从最后一个内容数据块到数据流结束",
        MetricId::SchedulingError => "实际派发时刻 − 计划开始时刻：负载发生器自身的迟到",
        MetricId::SlotWait => "等待连接或流水线槽位的时间",
        MetricId::Connect => "建立连接的时间，含 TLS",
        MetricId::Write => "请求从第一个到最后一个字节交给内核的时间",
        MetricId::PublishLatency => "从计划发布到收到确认；没有确认机制时为空",
        MetricId::EndToEndLatency => "从计划发布到消息交给消费者，使用同一单调时钟",
        MetricId::OfferedLoad => "测量窗口内每秒计划开始的操作数；闭环时为空",
        MetricId::AchievedLoad => "测量窗口内每秒发出的操作数",
        MetricId::Throughput => "测量窗口内每秒完成的操作数",
        MetricId::OutputTokenThroughput => "测量窗口内每秒到达的输出词元数",
        MetricId::Goodput => "计划开始于测量窗口且满足全部 SLO 的操作数，每秒",
        MetricId::GoodputShare => "满足全部 SLO 的操作 / 计划开始于测量窗口的操作",
        MetricId::SaturationPoint => "积压不增长且吞吐不低于其 0.98 倍的最大计划负载",
        MetricId::SpikeThreshold => "itl 的 p99 超过并发为 1 时两倍的最小并发数",
        MetricId::SloCapacity => "SLO 门槛全部通过的最大计划负载",
        MetricId::ErrorRate => "失败或未完成的操作 / 计划开始于测量窗口的操作",
        MetricId::Lost => "已发布但到排空结束仍未收到的消息数",
        MetricId::Duplicated => "重复收到的消息数",
        MetricId::Reordered => "晚于同一生产者后续消息才收到的消息数",
        MetricId::HitRatio => "命中 / 查询",
        MetricId::RecoveryTime => "从故障到吞吐与延迟在整个窗口内回到故障前区间",
        MetricId::ColdStart => "从启动到生成第一个词元",
        MetricId::Linearity => "n 个副本的吞吐 /(n × 单副本吞吐)",
        MetricId::AcceleratorMemoryPeak => "设备报告的加速器显存占用峰值",
        MetricId::Cost => "候选的每小时价格，来自场景或价目表",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_in_chinese_too() {
        for metric in MetricId::ALL {
            let zh = definition(Lang::Zh, *metric);
            assert!(zh.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{metric}: {zh}");
        }
    }

    #[test]
    fn languages_read_back() {
        for lang in [Lang::En, Lang::Zh] {
            assert_eq!(lang.as_str().parse::<Lang>(), Ok(lang));
        }
        assert_eq!("fr".parse::<Lang>().unwrap_err().to_string(), "unknown language `fr`; expected en or zh");
    }
}
