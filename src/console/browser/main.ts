// Keeps the page current: fetches it again, and replaces the parts that have changed.

const pollMilliseconds = 10_000;
const typingMilliseconds = 250;

/** Trusted Types, which TypeScript's DOM library lacks. */
interface TrustedTypes {
  readonly createPolicy: (name: string, rules: Policy) => Policy;
}

interface Policy {
  readonly createHTML: (html: string) => string;
}

declare global {
  interface Window {
    readonly trustedTypes?: TrustedTypes;
  }
}

/** The only policy: the fetched page is trusted as HTML, because every text in it is escaped. */
const asIs: Policy = { createHTML: (html) => html };
const policy = window.trustedTypes?.createPolicy("rampart", asIs) ?? asIs;

const search = document.querySelector<HTMLInputElement>("#q");
const state = document.querySelector("#state");
const shown = new Map<Element, string>();
let requests = 0;

async function refresh(): Promise<void> {
  const number = ++requests;
  try {
    const page = await fetchPage();
    // Ignores the response to an older request, which may come later.
    if (number !== requests) return;
    show(page);
    document.body.classList.remove("old");
  } catch (error) {
    if (number !== requests || !state) return;
    const why = error instanceof Error ? error.message : String(error);
    state.textContent = `The CA does not answer. What is below is old. (${why})`;
    shown.delete(state);
    document.body.classList.add("old");
  }
}

async function fetchPage(): Promise<Document> {
  // The page's URL may contain a password, and a URL with a password cannot be fetched.
  const response = await fetch(location.origin + addressOf(search?.value ?? ""), {
    cache: "no-store",
    signal: AbortSignal.timeout(pollMilliseconds),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim());
  return new DOMParser().parseFromString(policy.createHTML(text), "text/html");
}

const addressOf = (query: string): string =>
  query === "" ? "/" : `/?q=${encodeURIComponent(query)}`;

function show(page: Document): void {
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.querySelector(`[data-live="${part.getAttribute("data-live")}"]`);
    if (!fresh) throw new Error("another page has answered, so load this one again");
    replace(part, fresh);
  }
}

/**
 * Puts the content of another element into this one. Unchanged content stays, and so does a part with selected text. A
 * table keeps its focus and its scroll position.
 */
function replace(part: Element, fresh: Element): void {
  const html = fresh.innerHTML;
  if (shown.get(part) === html || hasSelection(part)) return;
  const tables = (): NodeListOf<HTMLElement> => part.querySelectorAll<HTMLElement>(".scroll");
  const before = [...tables()].map((each) => ({
    left: each.scrollLeft,
    isFocused: each === document.activeElement,
  }));
  part.replaceChildren(...fresh.childNodes);
  shown.set(part, html);
  for (const [i, each] of tables().entries()) {
    each.scrollLeft = before[i]?.left ?? 0;
    if (before[i]?.isFocused) each.focus({ preventScroll: true });
  }
}

function hasSelection(element: Element): boolean {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

async function poll(): Promise<void> {
  await refresh();
  setTimeout(pollWhenVisible, pollMilliseconds);
}

function pollWhenVisible(): void {
  if (!document.hidden) void poll();
  else document.addEventListener("visibilitychange", pollWhenVisible, { once: true });
}

function searchNow(): void {
  history.replaceState(null, "", addressOf(search?.value ?? ""));
  void refresh();
}

let typing: ReturnType<typeof setTimeout> | undefined;

search?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(searchNow, typingMilliseconds);
});
search?.form?.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  searchNow();
});
setTimeout(pollWhenVisible, pollMilliseconds);
