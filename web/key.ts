// What says that this page may ask. The address that memgauge web prints has a token behind #, which no request carries;
// the page exchanges it for the key of this server and sends that with each question. A cookie would not do: browsers
// send it to whoever listens on another port of the machine. Other ports are other origins, and can't read the storage.
export const keyHeader = "Memgauge-Key";
const store = "memgauge-key";

let mine = ""; // where the browser keeps nothing
let entering: Promise<void> = Promise.resolve();

// enter exchanges a token in the address, and says whether there was one.
function enter(): boolean {
  const [, token, rest] = /^#token=([^/]+)(.*)$/.exec(location.hash) ?? [];
  if (!token) return false;
  history.replaceState(null, "", "#" + (rest || "/"));
  entering = fetch("/api/enter", { method: "POST", body: decodeURIComponent(token) })
    .then(async (r) => {
      if (!r.ok) return; // the first question says what is wrong
      mine = (await r.json()).key;
      try {
        localStorage.setItem(store, mine);
      } catch {
        /* this page alone has it */
      }
    })
    .catch(() => {});
  return true;
}

function known(): string {
  try {
    return localStorage.getItem(store) || mine;
  } catch {
    return mine;
  }
}

enter();
addEventListener("hashchange", () => {
  // the address was opened again, perhaps that of a server which began since
  const before = known();
  if (enter())
    void entering.then(() => {
      if (known() !== before) location.reload();
    });
});

export async function key(): Promise<string> {
  await entering;
  return known();
}
