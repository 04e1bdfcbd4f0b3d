import { type LogEntry, parseEntry } from "../../../ca/issuance/log-entry.ts";
import { toPem } from "../../../pki/encoding/pem.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { printable } from "../../terminal/text.ts";
import type { IndexedEntry } from "./follower-index.ts";

/** Entries as a table, the oldest first. */
export function formatEntries(screen: Screen, entries: readonly IndexedEntry[]): string {
  const rows = entries.toReversed().map((entry) => {
    const { proof, pod } = parseEntry(entry.octets);
    const { idx, at, serial, spiffeId, cluster, node } = entry;
    return [String(idx), at, serial, spiffeId, cluster, node, pod?.name, proof].map((cell) =>
      printable(cell ?? "-"),
    );
  });
  const headings = ["INDEX", "TIME", "SERIAL", "NAME", "CLUSTER", "NODE", "POD", "PROOF"];
  return formatTable(screen, headings, rows, ["NAME", "POD", "NODE", "CLUSTER"]);
}

/** One entry as JSON, with its certificate as PEM. */
export function entryAsJson(entry: IndexedEntry): string {
  const { certificate, ...circumstances }: LogEntry = parseEntry(entry.octets);
  const { idx: index, spiffeId, serial, notAfter } = entry;
  const certificatePem = toPem("CERTIFICATE", certificate);
  return JSON.stringify({ index, spiffeId, serial, notAfter, ...circumstances, certificatePem });
}
