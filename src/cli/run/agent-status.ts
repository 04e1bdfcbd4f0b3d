import type { AgentStatus } from "../../agent/status/agent-status.ts";
import { OperatorError } from "../../foundation/operator-error.ts";

/** Prints what a running agent says of itself. @throws OperatorError when none answers. */
export async function showStatus(url: string, asJson: boolean): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined);
  if (!response?.ok) throw new OperatorError(`no agent answers at ${url}`);
  const status = (await response.json()) as AgentStatus;
  console.log(asJson ? JSON.stringify(status, undefined, 2) : describe(status).join("\n"));
  if (!status.isReady) process.exitCode = 1;
}

function describe({ isReady, identities, roots, bundle }: AgentStatus): readonly string[] {
  return [
    isReady ? "ready" : "not ready",
    ...identities.flatMap((identity) => [
      "",
      identity.spiffeId,
      `  expires       ${identity.notAfter ?? "-"} (${identity.hoursLeft} h left)`,
      `  next renewal  ${identity.nextAttempt}`,
      `  issuer        ${identity.issuer ?? "-"}`,
      `  last error    ${identity.lastError ?? "-"}`,
    ]),
    "",
    `trust bundle    sequence ${bundle.sequence ?? "-"}, current at ${bundle.confirmedAt ?? "-"}`,
    ...(bundle.lastError === undefined ? [] : [`  last error    ${bundle.lastError}`]),
    ...roots.flatMap(({ subject, notAfter, sha256 }) => [
      `  root          ${subject.replaceAll("\n", ", ")}, until ${notAfter}`,
      `                SHA-256 ${sha256}`,
    ]),
  ];
}
