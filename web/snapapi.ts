// What is asked of memory snapshots. Events are counted from a device's first; bytes are bytes, times µs since the epoch.
import { ask, get, Trouble } from "./api";
import { heldShot, heldTile } from "./held";
import { key, keyHeader } from "./key";
import type { Shot } from "./shapes";

export type { Block, Delta, Deltas, Device, Diff, Moment, Run, Segment, Segments, Shot, StackFrame } from "./shapes";

export const at = (key: string, what = "") => `f/${encodeURIComponent(key)}${what && "/" + what}`;

export const shot = (key: string, again = false, s?: AbortSignal) => get<Shot>(at(key) + (again ? "?again=1" : ""), s);

// Tile is a stretch of the picture as the server sends it: columns of five numbers (live and reserved, each the least and
// the most, and µs since the first event), boxes of 20 bytes.
export interface Tile {
  level: number;
  index: number;
  least: number;
  columns: Float32Array;
  count: number;
  bytes: ArrayBuffer;
  boxes: DataView;
  id: string;
}

export const tileColumns = 512,
  boxBytes = 20,
  rest = 0xffffffff;
const magic = 0x31544d47,
  head = 24;

export async function tile(
  key: string,
  device: number,
  level: number,
  index: number,
  least: number,
  s: AbortSignal,
): Promise<Tile> {
  if (heldShot) return unheld(device, level, index);
  const r = await ask(at(key, `tile?device=${device}&level=${level}&index=${index}&least=${least}`), { signal: s });
  return cut(await r.arrayBuffer(), level, index, least);
}

const cuts = new Map<string, Tile>(); // a coarse tile stands for many fine ones, and is drawn as one

// unheld is a tile that the page carries.
function unheld(device: number, level: number, index: number): Tile {
  const x = heldTile(device, level, index),
    id = `${device}/${x.level}/${x.index}`;
  let tile = cuts.get(id);
  if (!tile) {
    const bytes = Uint8Array.from(atob(x.bytes), (c) => c.charCodeAt(0)).buffer;
    cuts.set(id, (tile = cut(bytes, x.level, x.index, 0)));
  }
  return tile;
}

function cut(all: ArrayBuffer, level: number, index: number, least: number): Tile {
  const v = new DataView(all),
    n = (i: number) => v.getUint32(4 * i, true);
  if (all.byteLength < head || n(0) !== magic) throw new Trouble("gone");
  const columns = n(3),
    count = n(4),
    from = head + 20 * columns;
  const bytes = all.slice(from, from + boxBytes * count);
  return {
    level,
    index,
    least: n(5),
    columns: new Float32Array(all, head, 5 * columns),
    count,
    bytes,
    boxes: new DataView(bytes),
    id: `${level}/${index}/${least}`,
  };
}

// upload sends a file as it is, and tells how far. XMLHttpRequest can say that; fetch can't.
export function upload(file: File, told: (share: number) => void, signal: AbortSignal): Promise<string> {
  return new Promise((done, fail) => {
    const x = new XMLHttpRequest();
    x.open("POST", "/api/f?name=" + encodeURIComponent(file.name));
    x.upload.onprogress = (e) => told(e.loaded / Math.max(1, e.total));
    x.onload = () => {
      try {
        const v = JSON.parse(x.responseText);
        x.status === 200 ? done(v.key) : fail(new Trouble(v.message, v.hint, x.status));
      } catch {
        fail(new Trouble(x.responseText || x.statusText));
      }
    };
    x.onerror = () => fail(new Trouble("gone"));
    signal.addEventListener("abort", () => {
      x.abort();
      fail(new DOMException("", "AbortError"));
    });
    void key().then((k) => {
      if (signal.aborted) return;
      x.setRequestHeader(keyHeader, k);
      x.send(file);
    });
  });
}
