// unpack reads what the page carries: JSON, compressed, as letters and digits.
export async function unpack() {
  const text = document.getElementById("data")!.textContent!;
  const zipped = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
