import type { AgentStatus } from "../../../agent/status/agent-status.ts";
import type { XdsReport } from "../../../agent/xds/xds-status.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { readJson } from "../../../foundation/fetch.ts";
import { fetchTrusting } from "../../../program/http/node-fetch.ts";
import { exitCodes } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";

const ask = fetchTrusting(undefined);

/** A node's agent reports on every workload of its node. */
const maximumOctets = 16 * 1024 * 1024;

/** Prints the status of a running agent. @throws OperatorError when no agent answers. */
export async function showStatus(terminal: Terminal, url: string, asJson: boolean): Promise<void> {
  const answer = await fetchStatus(url).catch(() => undefined);
  if (answer === undefined) throw new OperatorError(`no agent answers at ${url}`);
  const status = answer as AgentStatus;
  terminal.print(asJson ? JSON.stringify(status, undefined, 2) : describe(status).join("\n"));
  if (!status.isReady) terminal.exitWith(exitCodes.attention);
}

async function fetchStatus(url: string): Promise<unknown> {
  const response = await ask(url, { signal: AbortSignal.timeout(5_000) });
  return response.ok ? readJson(response, maximumOctets) : undefined;
}

/** The status for people, line by line. */
export function describe(status: AgentStatus): readonly string[] {
  const { isReady, reasons, identities, roots, bundle, revocation, xds } = status;
  return [
    isReady ? "ready" : "not ready",
    ...reasons.map((reason) => `  ${printable(reason)}`),
    ...identities.flatMap((identity) => [
      "",
      identity.spiffeId,
      `  expires       ${identity.notAfter ?? "-"} (${identity.hoursLeft} h left)`,
      `  next renewal  ${identity.nextAttempt}`,
      `  issuer        ${identity.issuer ?? "-"}`,
      `  names         ${identity.names ?? "-"}`,
      `  last error    ${identity.lastError ?? "-"}`,
    ]),
    "",
    `trust bundle    sequence ${bundle.sequence ?? "-"}, current at ${bundle.confirmedAt ?? "-"}`,
    ...(bundle.lastError === undefined ? [] : [`  last error    ${bundle.lastError}`]),
    ...roots.flatMap(({ subject, notAfter, sha256 }) => [
      `  root          ${subject.replaceAll("\n", ", ")}, until ${notAfter}`,
      `                SHA-256 ${sha256}`,
    ]),
    ...describeRevocation(revocation),
    ...(xds ? ["", ...describeXds(xds)] : []),
  ];
}

function describeRevocation({ isUsed, lists, lastError }: AgentStatus["revocation"]) {
  if (lists.length === 0) return [];
  return [
    `CRLs            ${isUsed ? "in use" : "not in use"}`,
    ...(lastError === undefined ? [] : [`  last error    ${printable(lastError)}`]),
    ...lists.map(({ authority, number, nextUpdate }) => {
      return `  of authority  ${authority}, number ${number ?? "-"}, until ${nextUpdate ?? "-"}`;
    }),
  ];
}

function describeXds({ address, protocol, connectedSince, lastEnd, types, lastNack }: XdsReport) {
  return [
    `istiod          ${address}, ${connectedSince ? `connected since ${connectedSince} (${protocol})` : "not connected"}`,
    ...(lastEnd
      ? [`  last end      ${lastEnd.at} by ${lastEnd.by}: ${printable(lastEnd.detail)}`]
      : []),
    ...types.map(({ typeUrl, secondsAgo, pushes, nacks }) => {
      const age = secondsAgo === undefined ? "none" : `${secondsAgo} s ago`;
      return `  last push     ${age}, ${pushes} in all, ${nacks} rejected: ${shortType(typeUrl)}`;
    }),
    ...(lastNack
      ? [
          `  last NACK     ${lastNack.at} ${shortType(lastNack.typeUrl)}: ${printable(lastNack.detail)}`,
        ]
      : []),
  ];
}

const shortType = (typeUrl: string): string =>
  printable(typeUrl.replace("type.googleapis.com/", ""));
