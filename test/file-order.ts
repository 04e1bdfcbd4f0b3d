import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths under `test` of the files that mostly wait, the longest first. */
const waiting = [
  "cli/verbs/acceptance/",
  "node/http/certificate-service",
  "node/http/calls",
  "agent/stories/",
  "agent/trust/",
  "node/signer/signer",
  "agent/node-mode/feeds",
  "custody/key-service/kek-lease",
  "node/limits/",
  "program/bundle/document-follower",
  "node/serve/reconfigure",
  "node/serve/replicas",
  "program/otlp/telemetry",
  "agent/secrets/change-hook",
  "node/distribute/",
  "node/serve/recurring-push",
  "node/http/graceful-end",
];

/** Of those that compute, the longest. */
const computing = [
  "simulation/",
  "pki/",
  "transport/",
  "custody/",
  "dev/",
  "cli/verbs/authority/",
  "node/serve/configured-service",
  "cli/verbs/run/",
  "node/",
  "agent/",
  "cli/",
];

/** How many files that wait begin at once, and how many others begin before each further one. */
const waitingAtOnce = 4;
const computingBetween = 7;

/** Orders the files so that some of those that wait always run beside others, which use the cores meanwhile. */
export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isWaiting = (file: TestSpecification) => placeIn(waiting, file) < waiting.length;
    const later = inOrder(waiting, sorted.filter(isWaiting));
    const others = inOrder(
      computing,
      sorted.filter((file) => !isWaiting(file)),
    );
    const first = later.splice(0, waitingAtOnce);
    const mixed = others.flatMap((file, i) =>
      (i + 1) % computingBetween === 0 ? [file, ...later.splice(0, 1)] : [file],
    );
    return [...first, ...mixed, ...later];
  }
}

const inOrder = (paths: readonly string[], files: TestSpecification[]): TestSpecification[] =>
  files.toSorted((a, b) => placeIn(paths, a) - placeIn(paths, b));

function placeIn(paths: readonly string[], { moduleId }: TestSpecification): number {
  const at = paths.findIndex((path) => moduleId.startsWith(`${import.meta.dirname}/${path}`));
  return at < 0 ? paths.length : at;
}
