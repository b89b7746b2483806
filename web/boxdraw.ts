// Draws tiles of boxes: with WebGL2, or where there is none on a plain canvas. What it keeps is bounded by the tiles.
import { type Tile, boxBytes, rest, tileColumns } from "./snapapi";

// uses are the colours of what blocks are for, in the server's order; apart for any kind of colour vision.
export const uses: [string, string][] = [
  ["unknown", "#8c8c8c"],
  ["parameters", "#0072b2"],
  ["gradients", "#e69f00"],
  ["optimizer state", "#cc79a7"],
  ["activations", "#009e73"],
  ["temporaries", "#56b4e9"],
];

export interface Sight {
  from: number;
  to: number;
  low: number;
  high: number;
} // events, bytes

export interface Scene {
  tiles: { tile: Tile; from: number; to: number }[]; // a tile, and the events of it that are shown
  sight: Sight;
  bySite: boolean;
  picked: number;
  dark: boolean;
}

export interface Painter {
  kind: "webgl2" | "2d";
  draw(s: Scene): void;
  forget(t: Tile): void;
  close(): void;
}

const wide = (t: Tile) => 2 ** t.level;
const restInk = (dark: boolean): [number, number, number] => (dark ? [58, 66, 78] : [205, 211, 218]);

// hue gives a line of code one of 24 colours, light or dark enough to lie beside each other.
function ofSite(hue: number): [number, number, number] {
  const h = ((hue % 24) / 24) * 6,
    l = [0.46, 0.58, 0.7][Math.floor(hue / 24) % 3],
    c = 0.36;
  const f = (n: number) => {
    const k = (n + h * 2) % 12;
    return l - c * Math.min(l, 1 - l) * 2 * Math.max(-1, Math.min(k - 3, 9 - k, 1)) * 0.7;
  };
  return [f(0) * 255, f(8) * 255, f(4) * 255];
}

const rgb = (hex: string): [number, number, number] => {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
};
const useColors = uses.map(([, c]) => rgb(c));

export function colorOf(use: number, hue: number, bySite: boolean, dark: boolean): [number, number, number] {
  return use === 255 ? restInk(dark) : bySite ? ofSite(hue) : (useColors[use] ?? useColors[0]);
}

const perRow = 256; // boxes in a row of a tile's texture

const vertex = `#version 300 es
uniform highp usampler2D boxes; uniform vec4 across; uniform vec4 up; uniform vec3 palette[6]; uniform vec3 resting; uniform bool bySite; uniform uint picked;
flat out vec3 color; flat out vec2 extent; out vec2 place; flat out int lit;
vec3 site(uint hue) {
  float h = float(hue % 24u) / 4.0, l = hue / 24u % 3u == 0u ? 0.46 : hue / 24u % 3u == 1u ? 0.58 : 0.7;
  vec3 k = mod(vec3(0.0, 8.0, 4.0) + h * 2.0, 12.0);
  return l - 0.504 * min(l, 1.0 - l) * max(vec3(-1.0), min(min(k - 3.0, 9.0 - k), vec3(1.0)));
}
const int corners[6] = int[6](0, 1, 2, 2, 1, 3); // of two triangles
void main() {
  int n = gl_VertexID / 6, c = corners[gl_VertexID - 6 * n];
  ivec2 at = ivec2(5 * (n & 255), n >> 8); // five numbers a box, 256 boxes a row
  uint span = texelFetch(boxes, at, 0).x, id = texelFetch(boxes, at + ivec2(3, 0), 0).x, look = texelFetch(boxes, at + ivec2(4, 0), 0).x;
  vec2 size = uintBitsToFloat(uvec2(texelFetch(boxes, at + ivec2(1, 0), 0).x, texelFetch(boxes, at + ivec2(2, 0), 0).x));
  uvec2 columns = uvec2(span & 0xffffu, span >> 16);
  vec2 corner = vec2(c & 1, c >> 1);
  float x0 = clamp(float(columns.x) * across.x + across.y, across.z, across.w), x1 = clamp(float(columns.y) * across.x + across.y, across.z, across.w);
  float y0 = (size.x - up.x) * up.y, y1 = (size.x + size.y - up.x) * up.y;
  gl_Position = vec4(mix(x0, x1, corner.x) * 2.0 - 1.0, mix(y0, y1, corner.y) * 2.0 - 1.0, 0.0, 1.0);
  extent = vec2((x1 - x0) * up.z, (y1 - y0) * up.w);
  place = corner * extent;
  if (columns.x == 0u) { place.x += 4.0; extent.x += 4.0; } // a box goes on in the next tile: no border there
  if (columns.y == 512u) extent.x += 4.0;
  uint use = look & 255u;
  color = use == 255u ? resting : bySite ? site(look >> 16) : palette[min(use, 5u)];
  lit = id == picked && use != 255u ? 1 : 0;
  if (use == 255u) extent = vec2(0.0);
}`;

const fragment = `#version 300 es
precision mediump float;
flat in vec3 color; flat in vec2 extent; in vec2 place; flat in int lit; out vec4 ink;
void main() {
  vec2 edge = min(place, extent - place);
  bool border = extent.y > 3.0 && edge.y < 1.0 || extent.x > 3.0 && extent.y > 3.0 && edge.x < 1.0;
  ink = vec4(lit == 1 ? vec3(0.84, 0.37, 0.0) : border ? color * 0.72 : color, 1.0);
}`;

function program(g: WebGL2RenderingContext): WebGLProgram | null {
  const p = g.createProgram()!;
  for (const [kind, text] of [
    [g.VERTEX_SHADER, vertex],
    [g.FRAGMENT_SHADER, fragment],
  ] as const) {
    const s = g.createShader(kind)!;
    g.shaderSource(s, text);
    g.compileShader(s);
    g.attachShader(p, s);
  }
  g.linkProgram(p);
  return g.getProgramParameter(p, g.LINK_STATUS) ? p : null;
}

function gl(canvas: HTMLCanvasElement): Painter | null {
  const g = canvas.getContext("webgl2", {
    antialias: false,
    alpha: true,
    premultipliedAlpha: true,
    preserveDrawingBuffer: false,
  });
  const p = g && program(g);
  if (!g || !p) return null;
  // A tile lies in a texture and is drawn in one go. As instances its boxes would each be a draw of their own to a
  // software renderer.
  const made = new Map<Tile, WebGLTexture>(),
    none = g.createVertexArray()!;
  const at = (name: string) => g.getUniformLocation(p, name);
  const where = {
    across: at("across"),
    up: at("up"),
    palette: at("palette"),
    resting: at("resting"),
    bySite: at("bySite"),
    picked: at("picked"),
  };
  const load = (t: Tile) => {
    const texture = g.createTexture()!,
      high = Math.max(1, Math.ceil(t.count / perRow)),
      wide = (perRow * boxBytes) / 4;
    const words = new Uint32Array(wide * high);
    words.set(new Uint32Array(t.bytes));
    g.bindTexture(g.TEXTURE_2D, texture);
    g.texParameteri(g.TEXTURE_2D, g.TEXTURE_MIN_FILTER, g.NEAREST);
    g.texParameteri(g.TEXTURE_2D, g.TEXTURE_MAG_FILTER, g.NEAREST);
    g.texImage2D(g.TEXTURE_2D, 0, g.R32UI, wide, high, 0, g.RED_INTEGER, g.UNSIGNED_INT, words);
    made.set(t, texture);
    return texture;
  };
  return {
    kind: "webgl2",
    draw({ tiles, sight, bySite, picked, dark }) {
      const w = canvas.width,
        h = canvas.height,
        length = sight.to - sight.from;
      g.viewport(0, 0, w, h);
      g.clearColor(0, 0, 0, 0);
      g.clear(g.COLOR_BUFFER_BIT);
      g.useProgram(p);
      g.bindVertexArray(none);
      g.uniform3fv(
        where.palette,
        useColors.flatMap((c) => c.map((v) => v / 255)),
      );
      g.uniform3fv(
        where.resting,
        restInk(dark).map((v) => v / 255),
      );
      g.uniform1i(where.bySite, bySite ? 1 : 0);
      g.uniform1ui(where.picked, picked >>> 0);
      g.uniform4f(where.up, sight.low, 1 / Math.max(1, sight.high - sight.low), w, h);
      for (const { tile, from, to } of tiles) {
        const first = tile.index * tileColumns * wide(tile);
        g.uniform4f(
          where.across,
          wide(tile) / length,
          (first - sight.from) / length,
          (from - sight.from) / length,
          (to - sight.from) / length,
        );
        g.bindTexture(g.TEXTURE_2D, made.get(tile) ?? load(tile));
        g.drawArrays(g.TRIANGLES, 0, 6 * tile.count);
      }
    },
    forget(t) {
      const texture = made.get(t);
      if (!texture) return;
      g.deleteTexture(texture);
      made.delete(t);
    },
    close() {
      for (const t of [...made.keys()]) this.forget(t);
      g.deleteVertexArray(none);
      g.deleteProgram(p);
    },
  };
}

function plain(canvas: HTMLCanvasElement): Painter {
  const g = canvas.getContext("2d")!;
  return {
    kind: "2d",
    draw({ tiles, sight, bySite, picked, dark }) {
      const w = canvas.width,
        h = canvas.height,
        across = w / (sight.to - sight.from),
        up = h / Math.max(1, sight.high - sight.low);
      g.clearRect(0, 0, w, h);
      for (const { tile, from, to } of tiles) {
        g.save();
        g.beginPath();
        g.rect((from - sight.from) * across, 0, (to - from) * across, h);
        g.clip();
        each(tile, (b) => {
          const x = (b.from - sight.from) * across,
            y = h - (b.bottom + b.bytes - sight.low) * up;
          const bw = (b.to - b.from) * across,
            bh = b.bytes * up;
          if (x > w || x + bw < 0 || y > h || y + bh < 0) return;
          const c = b.id === picked && b.id !== rest ? [214, 94, 0] : colorOf(b.use, b.hue, bySite, dark);
          g.fillStyle = `rgb(${c.map((v) => Math.round(v)).join()})`;
          g.fillRect(x, y, Math.max(bw, 0.5), Math.max(bh - (bh > 3 ? 1 : 0), 0.5));
        });
        g.restore();
      }
    },
    forget() {},
    close() {},
  };
}

export interface Drawn {
  from: number;
  to: number;
  bottom: number;
  bytes: number;
  id: number;
  use: number;
  hue: number;
}

// each calls f for the boxes of a tile, in events.
export function each(t: Tile, f: (b: Drawn) => void) {
  const first = t.index * tileColumns,
    w = wide(t),
    v = t.boxes;
  for (let i = 0, o = 0; i < t.count; i++, o += boxBytes) {
    f({
      from: (first + v.getUint16(o, true)) * w,
      to: (first + v.getUint16(o + 2, true)) * w,
      bottom: v.getFloat32(o + 4, true),
      bytes: v.getFloat32(o + 8, true),
      id: v.getUint32(o + 12, true),
      use: v.getUint8(o + 16),
      hue: v.getUint16(o + 18, true),
    });
  }
}

// hit is the box at a moment and a height.
export function hit(t: Tile, event: number, height: number): Drawn | null {
  let found: Drawn | null = null;
  each(t, (b) => {
    if (b.from <= event && event < b.to && b.bottom <= height && height < b.bottom + b.bytes) found = b;
  });
  return found;
}

// painter draws with WebGL2, unless there is none or plain is asked for.
export function painter(canvas: HTMLCanvasElement, want: string | null): Painter {
  return (want !== "2d" && gl(canvas)) || plain(canvas);
}
