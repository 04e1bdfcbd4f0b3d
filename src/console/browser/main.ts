import { ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { StatusService } from "../../gen/rampart/status/v1/status_pb.ts";
import { nowOf } from "../page/format.ts";
import { logEntries } from "../page/log.ts";
import { state } from "../page/page.ts";
import { sections } from "../page/sections.ts";
import { type Markup, place } from "./live-part.ts";

const pollMilliseconds = 10_000;
const typingMilliseconds = 250;

const client = createClient(
  StatusService,
  createConnectTransport({
    baseUrl: location.origin,
    useBinaryFormat: true,
    fetch: (input, init) => fetch(input, { ...init, cache: "no-store" }),
  }),
);

const search = document.querySelector<HTMLInputElement>("#q");
let searches = 0;

async function showStatus(): Promise<void> {
  const status = await client.getStatus({});
  await place("#state", state(status));
  for (const { id, render } of sections) await place(`[data-live="${id}"]`, render(status));
  if (search?.value === "") await showEntries("", nowOf(status));
}

async function showEntries(query: string, now: Date): Promise<void> {
  const number = ++searches;
  const found = await client.searchLog({ query }).then(
    (answer): Markup => logEntries(answer, now),
    (error: unknown) => ConnectError.from(error).rawMessage,
  );
  // An older search may be answered later.
  if (number === searches) await place("#log-entries", found);
}

async function poll(): Promise<void> {
  try {
    await showStatus();
  } catch (error) {
    const { rawMessage } = ConnectError.from(error);
    await place("#state", `not answering, and what is below is old: ${rawMessage}`);
  }
  setTimeout(pollWhenVisible, pollMilliseconds);
}

function pollWhenVisible(): void {
  if (!document.hidden) void poll();
  else document.addEventListener("visibilitychange", pollWhenVisible, { once: true });
}

function searchNow(): void {
  const query = search?.value ?? "";
  history.replaceState(null, "", query === "" ? "/" : `/?q=${encodeURIComponent(query)}`);
  void showEntries(query, new Date());
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
