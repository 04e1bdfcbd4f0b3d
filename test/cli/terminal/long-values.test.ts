import { expect, test } from "vitest";
import { usualWidth } from "../../../src/cli/terminal/terminal.ts";
import { columnsOf } from "../../../src/cli/terminal/text.ts";
import { formatAuthorities } from "../../../src/cli/verbs/authority/store-summary.ts";
import { formatRevocations } from "../../../src/cli/verbs/certificate/certificate.ts";
import { formatCandidates } from "../../../src/cli/verbs/certificate/revoke.ts";
import { formatDeliveries } from "../../../src/cli/verbs/cluster/delivery-report.ts";
import { formatDenials } from "../../../src/cli/verbs/deny.ts";
import { plainScreen } from "../../testkit/programs/memory-terminal.ts";

const at = new Date("2026-11-22T12:00:00Z");
const id = "0123456789abcdef".repeat(4);
const name = `spiffe://${"a-long-trust-domain.".repeat(5)}example/ns/${"n".repeat(63)}/sa/${"s".repeat(63)}`;
const cluster = "a-cluster-with-a-name-as-long-as-a-label-may-be-in-any-region-1";
const serial = "ab".repeat(20);
const node = "ip-10-0-12-34.a-region-with-a-long-name.compute.internal";
const why = "stolen from a laptop in a train, says the ticket; ".repeat(4);
const schedule = { publishedFrom: at, signsFrom: at, signsUntil: at, retiresAt: at };

const authority = { id, fingerprint: id, schedule, key: "EC-P256", kind: "authority" } as const;

const delivery = {
  ...{ cluster, issuer: undefined, fault: undefined, namespaces: 100, bundles: [] },
  ...{ withoutBundle: 10, without: [], unread: 10 },
};
const verifying = { ...authority, phase: "verifying", signs: false, isTainted: true } as const;

const screen = plainScreen(usualWidth);

const tables = {
  "authority list": formatAuthorities(screen, [
    { ...authority, phase: "signing", signs: true, isTainted: false, taintedAt: undefined },
    { ...verifying, taintedAt: at },
    { ...verifying, phase: "retired", taintedAt: undefined },
  ]),
  "root list": formatAuthorities(screen, [
    { ...verifying, kind: "additional root", key: undefined, taintedAt: at },
  ]),
  "certificate revoke": formatCandidates(screen, [
    { authority: id, serialNumber: serial, notAfter: at, name, cluster, node, issuedAt: at },
  ]),
  "certificate revoked": formatRevocations(screen, [
    {
      serial,
      authority: id,
      revokedAt: at,
      expiresAt: at,
      reason: "cessationOfOperation",
      stated: "configuration",
      why,
    },
  ]),
  "deny list": formatDenials(
    screen,
    [{ subject: name, stated: "configuration", until: at, hasEnded: true, why }],
    "",
  ),
  "authority plan": formatDeliveries(screen, [
    {
      ...delivery,
      bundles: [{ sequence: 123_456, isCurrent: true, namespaces: 90, since: at }],
      without: Array.from({ length: 10 }, (_, i) => `${"n".repeat(60)}-${i}`),
    },
    { ...delivery, fault: why },
  ]),
};

test.each(Object.entries(tables))("%s fits 100 columns with the longest values", (_, table) => {
  const lines = table.split("\n");
  expect(lines.filter((line) => columnsOf(line) > usualWidth)).toEqual([]);
});

test("and keeps every value whole but for the breaks of its lines", () => {
  const letters = (text: string): string => text.replaceAll(/\s/g, "");
  expect(letters(tables["deny list"])).toContain(letters(name));
  expect(letters(tables["deny list"])).toContain(letters(why));
  expect(letters(tables["certificate revoke"])).toContain(letters(name));
  expect(tables["certificate revoke"]).toContain(serial);
});
