import type { Composition } from "../../config/composition.ts";
import type { Configuration } from "../../config/configuration.ts";
import { Console, ConsoleScript } from "../../console/console.ts";
import { OperatorGuard } from "../../console/operator-guard.ts";
import { portGuard } from "../../console/port-guard.ts";
import { build } from "../../foundation/build.ts";
import { scriptIntegrity, scriptPath } from "../../gen/console/script-name.ts";
import type { PeerProcesses } from "../../program/metrics.ts";
import type { IssuanceCounts } from "../../status/issuance.ts";
import { LogSearch } from "../../status/log-search.ts";
import { Status } from "../../status/status.ts";
import type { ServerContext } from "../server.ts";
import type { RecurringPush } from "./recurring-work.ts";

interface ServeConsoleParts {
  readonly configuration: Configuration;
  readonly composition: Composition;
  readonly counts: IssuanceCounts;
  readonly push: Pick<RecurringPush, "clusters" | "outcomes" | "crls">;
  readonly wordsFor: ServerContext["wordsFor"];
}

/** Creates the console for the monitoring port. If credentials are configured, they are required here, too. */
export function serveConsole(parts: ServeConsoleParts): Console {
  const { configuration, composition, counts, push } = parts;
  const { certificateAuthority, issuers, accessKeys } = composition;
  const guard = configuration.console
    ? OperatorGuard.create(configuration.console, accessKeys)
    : portGuard;
  const status = Status.create({
    configuration,
    issuers,
    push,
    counts,
    crlPush: push.crls,
    program: `rampart serve ${build}`,
    issuance: certificateAuthority.issuance,
    searchableLog: LogSearch.in(certificateAuthority.publishedLog),
    hasCredentials: configuration.console !== undefined,
  });
  const { clock, log } = certificateAuthority;
  const { wordsFor = (words: string): string => words } = parts;
  return Console.create({ status, guard, clock, log, script, hasTrailers: true, wordsFor });
}

/** Loaded on the first request, because few processes ever show their console. */
const script: ConsoleScript = {
  path: scriptPath,
  integrity: scriptIntegrity,
  answer: async () => {
    const { script } = await import("../../gen/console/script.ts");
    return new Response(script, { headers: ConsoleScript.headers });
  },
};

/** The sentence that says which calls are counted. */
export function countedCalls(peerProcesses: PeerProcesses | undefined): string {
  return peerProcesses
    ? "Calls of this process alone: each of the others counts its own, behind its monitoring port."
    : "Calls since this process began, for a day at most.";
}
