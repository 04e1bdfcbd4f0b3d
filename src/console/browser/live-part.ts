import type { Markup as PageMarkup } from "../page/format.ts";

export type Markup = PageMarkup | string;

/** Trusted Types, of which TypeScript's library of the DOM does not know. */
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

/** The page's own HTML, in which every text is escaped, is the one thing that a browser takes as HTML. */
const asIs: Policy = { createHTML: (html) => html };
const policy = window.trustedTypes?.createPolicy("rampart", asIs) ?? asIs;

const shown = new Map<string, string>();

/**
 * Places content in the element that a selector finds. It leaves alone what has not changed, and what a
 * person has selected. A table keeps its focus and how far it is scrolled. A plain text is escaped.
 */
export async function place(selector: string, content: Markup): Promise<void> {
  const element = document.querySelector(selector);
  const html = typeof content === "string" ? escaped(content) : String(await content);
  if (!element || shown.get(selector) === html || hasSelection(element)) return;
  const before = [...element.querySelectorAll(".scroll")].map((each) => ({
    left: each.scrollLeft,
    isFocused: each === document.activeElement,
  }));
  element.innerHTML = policy.createHTML(html);
  shown.set(selector, html);
  for (const [i, each] of [...element.querySelectorAll<HTMLElement>(".scroll")].entries()) {
    each.scrollLeft = before[i]?.left ?? 0;
    if (before[i]?.isFocused) each.focus({ preventScroll: true });
  }
}

function escaped(text: string): string {
  const element = document.createElement("span");
  element.textContent = text;
  return element.outerHTML;
}

function hasSelection(element: Element): boolean {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}
