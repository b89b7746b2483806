// Colours that people with any kind of colour vision tell apart (Okabe and Ito), each with the text that reads on it.
export const classes: Record<string, string> = {
  heap_in_use: "#0072b2",
  heap_free: "#56b4e9",
  anonymous: "#e69f00",
  undivided: "#f0d9a8",
  shared: "#009e73",
  file: "#a6a6a6",
  kernel: "#cc79a7",
  python_arenas: "#f0e442",
  stacks: "#d55e00",
  page_tables: "#b58cc7",
  swap: "#d55e00",
  allocated: "#0072b2",
  cached: "#56b4e9",
  context: "#e69f00",
  outside: "#cc79a7",
  others: "#a6a6a6",
  driver: "#c9c9c9",
  used: "#0072b2",
  holder: "#0072b2",
  rest: "#3b8fc2",
  anon: "#e69f00",
};

export const colorOf = (key: string) => classes[key] ?? "#a6a6a6";

export function inkOn(color: string): string {
  const n = parseInt(color.slice(1), 16);
  const linear = (c: number) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const l = 0.2126 * linear(n >> 16) + 0.7152 * linear((n >> 8) & 255) + 0.0722 * linear(n & 255);
  return l > 0.179 ? "#000" : "#fff";
}

export const series = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a6a6a6"];
