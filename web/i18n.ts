// Words of the page in English and 简体中文. What the session itself says (names, evidence, advice) stays as it is.
const words: Record<string, [string, string]> = {
  sessions: ["Sessions", "会话"], search: ["Search sessions", "搜索会话"], all: ["All sessions", "所有会话"],
  language: ["Language", "语言"], skip: ["Skip to content", "跳到内容"],
  name: ["name", "名称"], state: ["state", "状态"], verdict: ["verdict", "结论"], peak: ["peak / limit", "峰值 / 上限"],
  ranks: ["ranks", "rank"], steps: ["steps", "步数"], disk: ["disk", "磁盘"], started: ["started", "开始时间"],
  command: ["command", "命令"], running: ["running", "运行中"], leak: ["leak", "泄漏"], healthy: ["healthy", "健康"],
  undecided: ["undecided", "未定"], loading: ["Loading…", "加载中…"], refresh: ["Refresh", "刷新"],
  nosessions: ["There are no sessions yet.", "还没有会话。"],
  nosessionshint: ["Start one: memgauge run -- python train.py", "启动一个：memgauge run -- python train.py"],
  nomatch: ["No session matches the search.", "没有匹配的会话。"],
  failed: ["That failed.", "失败了。"], gone: ["memgauge web does not answer. Is it still running?", "memgauge web 没有响应，它还在运行吗？"],
  retry: ["Try again", "重试"], overview: ["Overview", "概览"], verdicts: ["Verdicts", "结论"],
  tensors: ["Tensors", "张量"], stacks: ["Stacks", "调用栈"], sql: ["SQL", "SQL"], cost: ["Cost", "开销"],
  eval: ["Eval", "执行代码"], live: ["live", "实时"], ended: ["The session has ended: {0}.", "会话已结束：{0}。"],
  endedunseen: ["nobody saw how", "结束方式未知"], lostlive: ["The news have stopped; trying again.", "实时更新中断，正在重试。"],
  sOK: ["Healthy so far", "目前健康"], sEndOK: ["No leak was found", "未发现泄漏"],
  sUndecided: ["Undecided: {0}", "尚无结论：{0}"], sOf: ["{0} of {1}", "{1} 的 {0}"], sStep: ["step {0}", "第 {0} 步"],
  sLeak: ["Leaks {0} a step since step {1}", "自第 {1} 步起每步泄漏 {0}"],
  sLeakTime: ["Leaks {0} a second", "每秒泄漏 {0}"], sHeld: ["held by {0}", "由 {0} 持有"],
  sDies: ["dies about {0}", "约 {0} 耗尽"], sDied: ["memory ran out", "内存已耗尽"], sPeak: ["peak {0}", "峰值 {0}"],
  timeline: ["Memory over time", "内存随时间变化"],
  keys: ["Keys: ← → move, + − zoom, 0 shows all, [ ] move the mark, Enter pins it",
    "按键：← → 平移，+ − 缩放，0 显示全部，[ ] 移动标记，Enter 固定"],
  bytime: ["by time", "按时间"], bystep: ["by step", "按步"], whole: ["All", "全部"], lastmin: ["1 min", "1 分钟"],
  lastten: ["10 min", "10 分钟"], lasthour: ["1 h", "1 小时"], zoomin: ["Zoom in", "放大"], zoomout: ["Zoom out", "缩小"],
  earlier: ["Earlier", "更早"], later: ["Later", "更晚"], copylink: ["Copy link", "复制链接"], copied: ["Copied", "已复制"],
  panels: ["Panels", "面板"], job: ["job (cgroup)", "作业 (cgroup)"], host: ["host", "主机"], process: ["process", "进程"],
  device: ["device", "设备"], floors: ["held after each step", "每步结束后持有"], limit: ["limit", "上限"],
  forecast: ["forecast", "预测"], range: ["least to most", "最小到最大"], total: ["total", "总计"],
  allocator: ["allocator of {0}", "{0} 的分配器"],
  heap_in_use: ["heap in use", "堆（使用中）"], heap_free: ["heap free", "堆（空闲）"], anonymous: ["other anonymous", "其他匿名"],
  shared: ["shared", "共享"], file: ["file", "文件"], kernel: ["kernel", "内核"], python_arenas: ["Python arenas", "Python arena"],
  page_tables: ["page tables", "页表"], swap: ["swap", "交换"], allocated: ["allocated", "已分配"], cached: ["cached", "缓存"],
  context: ["context", "上下文"], outside: ["outside the allocator", "分配器之外"], others: ["other processes", "其他进程"],
  driver: ["driver", "驱动"], used: ["used", "已用"], holder: ["holder", "持有者"], rest: ["held by others", "其他持有者"], anon: ["private resident", "私有常驻"],
  where: ["Where the bytes are", "内存在哪里"], whereat: ["at {0}", "{0} 时"], wherenow: ["now", "现在"],
  wherepeak: ["when it held most", "占用最多时"], unpin: ["Back to the newest", "回到最新"], astable: ["As a table", "以表格显示"],
  nothing: ["Nothing was recorded here.", "此处没有记录。"], events: ["Events", "事件"], time: ["time", "时间"], event: ["event", "事件"],
  details: ["details", "详情"], noevents: ["Nothing has happened.", "没有事件。"],
  heldby: ["held by", "持有者"], created: ["created", "创建于"], do: ["do", "建议"], evidence: ["evidence", "依据"],
  reason: ["why", "原因"], runsinto: ["runs into", "将达到"], rate: ["rate", "速率"], interval: ["95 % interval", "95 % 区间"],
  since: ["since step", "起始步"], readings: ["readings", "读数"], step: ["step", "步"], second: ["s", "秒"],
  source: ["Source", "源码"], changed: ["The file was changed after the session began.", "该文件在会话开始后被修改过。"],
  nosource: ["The source can't be shown: {0}", "无法显示源码：{0}"], noverdicts: ["Nothing has been judged yet.", "尚未有结论。"],
  nofindings: ["No memory was judged: {0}", "没有可判断的内存：{0}"], trend: ["fitted line", "拟合线"],
  censusnow: ["Take a census now", "立即普查"], takingcensus: ["The trainers are looking…", "正在普查…"],
  nocensus: ["No census has been taken yet.", "还没有普查。"], census: ["census", "普查"], against: ["compared with", "对比"],
  groupby: ["by", "分组"], site: ["site", "位置"], shape: ["shape", "形状"], age: ["age", "存在时间"], bytes: ["bytes", "字节"],
  count: ["count", "数量"], growth: ["growth", "增长"], unknown: ["not known", "未知"], objects: ["What else grew", "其他增长"],
  type: ["type", "类型"], grew: ["delta", "变化"], older: ["since step {0} or before", "第 {0} 步或更早"], fresh: ["new", "新"],
  nolive: ["The session is over: there are no threads to look at.", "会话已结束，没有可查看的线程。"], thread: ["thread", "线程"],
  idlethread: ["no Python frames", "没有 Python 栈帧"], more: ["{0} more", "另有 {0} 个"], observing: ["What observing cost", "观测开销"],
  part: ["part", "部分"], seconds: ["seconds", "秒"], share: ["share", "占比"], lost: ["What was lost", "丢失的记录"],
  nolost: ["No record was lost.", "没有记录丢失。"], records: ["records", "记录数"], table: ["table", "表"], ring: ["ring file or table", "环形文件或表"],
  run: ["Run", "运行"], runhint: ["Ctrl+Enter runs", "Ctrl+Enter 运行"], stop: ["Stop", "停止"], examples: ["Examples", "示例"],
  statement: ["SQL statement", "SQL 语句"], rows: ["{0} rows in {1}", "{0} 行，用时 {1}"], cutrows: ["the first {0} rows; download has all", "前 {0} 行；下载可得全部"],
  norows: ["The answer has no rows.", "结果为空。"], chart: ["Chart", "图表"], asrows: ["Rows", "表格"], download: ["Download", "下载"],
  nochart: ["A chart needs a column of numbers.", "图表需要数值列。"], tables: ["Tables", "表"],
  evalwarn: ["Code runs in the live trainer and can change it. This was allowed with --allow-eval.", "代码会在训练进程中执行并可能改变它。此功能由 --allow-eval 允许。"],
  code: ["Python code", "Python 代码"], output: ["Output", "输出"], frames: ["stack, innermost first", "调用栈，最内层在前"],
  // reports
  written: ["The session was running when this page was written, {0}.", "本页写于 {0}，当时会话仍在运行。"],
  absent: ["This report does not carry that.", "本报告未包含此内容。"], flame: ["Flame graph", "火焰图"],
  leftout: ["{0} more memories are not in this report.", "另有 {0} 项内存未包含在本报告中。"],
  ran: ["How memory ran out", "内存如何耗尽"], minute: ["The minute around it", "前后一分钟"],
  heldmost: ["who held most", "占用最多者"], grewby: ["grew in that minute by", "该分钟内增长"],
  askedfor: ["asked for", "请求"], hole: ["largest hole", "最大空洞"],
  native: ["Native", "原生内存"], called: ["called", "所调用的函数"], nstacks: ["{0} stacks", "{0} 个调用栈"],
  nonative: ["Native memory was not sampled: start the training with memgauge run --native.", "未对原生内存采样：用 memgauge run --native 启动训练。"],
  livepeak: ["{0} live at the peak, device {1}", "峰值时存活 {0}，设备 {1}"],
  flamekeys: ["Keys: arrows move, Enter zooms, Esc shows all. Outermost frames are on top.",
    "按键：方向键移动，Enter 放大，Esc 显示全部。最外层帧在最上方。"],
  processes: ["Processes", "进程"], pid: ["pid", "pid"], role: ["role", "角色"], results: ["Results", "结果"], close: ["Close", "关闭"],
  // memory snapshots and jobs
  xShot: ["Memory snapshot", "内存快照"], xShots: ["Memory snapshots", "内存快照"], xPick: ["Open a snapshot", "打开快照"], xOrDrop: ["or drop a file anywhere on this page", "或将文件拖到此页面任意位置"],
  xDropHere: ["Drop the snapshot here", "在此放下快照文件"], xSending: ["Reading {0}", "正在读取 {0}"], xTooLarge: ["The file has {0}; a page takes at most {1}.", "文件大小为 {0}；页面最多接受 {1}。"],
  xTooLargeHint: ["memgauge web --snapshot FILE reads it from the disk", "memgauge web --snapshot FILE 直接从磁盘读取"], xReading: ["{0} of {1} are read", "已读取 {0}，共 {1}"],
  xTimeline: ["Timeline", "时间线"], xFlame: ["Flame graph", "火焰图"], xSegments: ["Segments", "内存段"], xDiff: ["Compare", "对比"], xDevice: ["device {0}", "设备 {0}"],
  xSentence: ["At most {0} were live, at event {1}; {2} were reserved at most, and {3} are live at the end.", "最多有 {0} 存活（事件 {1}）；最多预留 {2}，结束时 {3} 存活。"],
  xNoHistory: ["The file has no history: {0} are live at its end.", "文件没有历史记录：结束时 {0} 存活。"], xNoHistoryHint: ["No history was recorded: torch.cuda.memory._record_memory_history() records one. The flame graph and the segments show what is live.", "没有记录历史：torch.cuda.memory._record_memory_history() 可记录。火焰图和内存段显示存活的内存。"],
  xCounts: ["{0} events, {1} allocations", "{0} 个事件，{1} 次分配"], xCut: ["The file ends before its time, what stands before is shown: {0}", "文件不完整，仅显示已有部分：{0}"], xEmpty: ["The file has no device with events or segments.", "文件中没有任何设备的事件或内存段。"],
  xBeforeUnknown: ["What was live before the history is not in the file: levels are the least that they can have been.", "历史之前的存活内存不在文件中：显示的是最低可能值。"],
  xBoxes: ["{0} allocations over {1} events, stacked; at most {2} live", "{1} 个事件中的 {0} 次分配，堆叠显示；最多 {2} 存活"], xBoxesTitle: ["Allocations over time", "随时间的分配"], xAcross: ["by event, with the time since the first; the oldest at the bottom", "按事件排列，附自首个事件起的时间；最早的在底部"],
  xLevel: ["live", "存活"], xReserved: ["reserved", "预留"], xPointSegment: ["Point at a piece for what it is.", "指向一段查看内容。"],
  xPlain: ["This browser has no WebGL2: the boxes are drawn without it, and more slowly.", "此浏览器没有 WebGL2：绘制会较慢。"], xTaller: ["Taller", "放大高度"], xFlatter: ["Flatter", "缩小高度"], xPeak: ["Peak", "峰值"], xEnd: ["End", "结束"],
  xColors: ["colour", "颜色"], xByUse: ["by use", "按用途"], xByLine: ["by line of code", "按代码行"], xRest: ["small or short-lived", "较小或短暂"], xPoint: ["Point at a box; click it for its stack.", "指向方块查看；点击显示调用栈。"],
  xKeys: ["Keys: ← → ↑ ↓ move, + − zoom, * / height, 0 shows all, [ ] move the moment, { } by one event, p to the peak, Esc lets go. Wheel zooms, with Shift the height.", "按键：← → ↑ ↓ 移动，+ − 缩放，* / 高度，0 显示全部，[ ] 移动时刻，{ } 逐个事件，p 到峰值，Esc 取消。滚轮缩放，Shift 缩放高度。"],
  xChoose: ["Click into the picture, or press p, for what was live at that moment.", "点击图形或按 p 查看该时刻的存活内存。"], xEvent: ["event {0}", "事件 {0}"], xEventLabel: ["event", "事件"], xMoment: ["after event {0}", "事件 {0} 之后"],
  xMade: ["allocated", "分配于"], xFreed: ["freed", "释放于"], xOlder: ["before the history", "历史之前"], xStays: ["not in the history", "历史中未释放"], xAddress: ["address", "地址"], xNoStack: ["The file has no stack of it.", "文件中没有它的调用栈。"],
  xFlameHere: ["Flame graph of this moment", "此时刻的火焰图"], xLive: ["{0} live in {2} blocks, {1} reserved.", "{2} 个块共 {0} 存活，预留 {1}。"], xLargest: ["The largest blocks", "最大的块"], xUse: ["for", "用途"], xStack: ["stack", "调用栈"],
  xFind: ["Find a function or file", "查找函数或文件"], xFound: ["{0} frames match: {1}, {2}", "{0} 个栈帧匹配：{1}，{2}"], xWhole: ["Zoom out", "全部"], xBlocks: ["{0} allocations", "{0} 次分配"], xBlocksHead: ["blocks", "块数"], xBefore: ["before: {0}", "之前：{0}"],
  xAgainstEnd: ["Compared with the other's end: orange has grown, blue has shrunk.", "与另一文件的结束时刻对比：橙色增长，蓝色减少。"], xAgainstPeak: ["Compared with the other's peak: orange has grown, blue has shrunk.", "与另一文件的峰值对比：橙色增长，蓝色减少。"],
  xAtEnd: ["at the end of the history, the largest first", "历史结束时，最大的在前"], xNoSegments: ["The file has no segments of this device.", "文件中没有该设备的内存段。"], xSegmentText: ["{0} reserved, of it {1} free in {2} holes; the largest has {3}.", "预留 {0}，其中 {1} 空闲，分布在 {2} 个空洞中；最大的为 {3}。"],
  "seg used": ["in use", "使用中"], "seg pending": ["freed, waits for a stream", "已释放，等待流"], "seg free": ["free", "空闲"], "seg rounding": ["rounding", "取整"], "seg rest": ["rest too small to split off", "过小无法拆分的剩余"], xLostText: ["Blocks have more than was asked for: {0} by rounding, {1} in rests too small to split off.", "块比请求的多：取整 {0}，过小无法拆分的剩余 {1}。"], xAttached: ["attached", "附加文本"], xHoles: ["holes", "空洞"], xLargestHole: ["largest hole", "最大空洞"],
  xPickOther: ["Choose another snapshot to compare with: drop it onto the page, or start memgauge web with --snapshot twice.", "选择另一个快照进行对比：拖到页面上，或用两次 --snapshot 启动 memgauge web。"], xSame: ["Nothing differs.", "没有差异。"],
  rJob: ["Job {0}", "作业 {0}"], rSessions: ["All sessions", "所有会话"], rCount: ["{0} ranks, beside each other at equal steps", "{0} 个 rank，按相同步数对比"], rOpen: ["Open rank {0}", "打开 rank {0}"], rNone: ["No rank is odd.", "没有异常的 rank。"],
  rMissing: ["{0} did not answer", "{0} 个没有响应"], rShow: ["memory", "内存"], rDeviation: ["distance from the median", "与中位数的差"], rNothing: ["No rank has made a step yet.", "还没有任何 rank 完成一步。"], rPointed: ["Rank {0} on {1}, from step {2}:", "{1} 上的 rank {0}，自第 {2} 步："],
  rFor: ["(the farthest of {0} ranks)", "（{0} 个 rank 中偏差最大的）"], rKeys: ["Point at a rank; click or Enter opens its session, the arrow keys move.", "指向 rank 查看；点击或 Enter 打开会话，方向键移动。"], rHeat: ["Memory of {0} ranks over {1} steps", "{0} 个 rank 在 {1} 步中的内存"],
  rAxis: ["Down: ranks. Across: steps, {0} a column; the lowest of each.", "纵向：rank。横向：步数，每列 {0} 步，取最低值。"], rank: ["rank", "rank"], rNode: ["node", "节点"], rAtEnd: ["at the end", "最后"],
  "use unknown": ["unknown", "未知"], "use parameters": ["parameters", "参数"], "use gradients": ["gradients", "梯度"], "use optimizer state": ["optimizer state", "优化器状态"], "use activations": ["activations", "激活"], "use temporaries": ["temporaries", "临时"],
};

const langs = ["en", "zh-CN"] as const;
type Lang = (typeof langs)[number];

function initial(): Lang {
  let kept: string | null = null;
  try { kept = localStorage.getItem("memgauge-lang"); } catch { /* a browser that keeps nothing */ }
  if (kept === "en" || kept === "zh-CN") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

let current: Lang = initial();
document.documentElement.lang = current;

export const lang = (): Lang => current;

export function setLang(l: string) {
  current = l === "zh-CN" ? "zh-CN" : "en";
  document.documentElement.lang = current;
  try { localStorage.setItem("memgauge-lang", current); } catch { /* likewise */ }
}

export function t(key: string, ...args: (string | number)[]): string {
  const found = words[key];
  const text = found ? found[current === "zh-CN" ? 1 : 0] : key;
  return text.replace(/\{(\d)\}/g, (_, i) => String(args[Number(i)] ?? ""));
}
