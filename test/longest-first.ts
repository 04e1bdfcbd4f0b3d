import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths under `test`: what takes longest, most of it waiting or on one core. The longest files stand first. */
const longest = [
  "cli/verbs/run/processes",
  "agent/trust/own-bundle",
  "cli/verbs/acceptance/",
  "node/http/certificate-service",
  "cli/verbs/log/in-a-bucket",
  "ca/changes-amid-answers",
  "kubernetes/pod-watch",
  "node/limits/",
  "node/serve/",
  "agent/stories/",
  "agent/identity/certificate-client",
  "agent/secrets/",
  "cli/verbs/run/",
  "node/",
  "simulation/",
  "pki/public-vectors",
  "transport/",
  "custody/key-service/",
  "client/client",
  "dev/options",
  "cli/",
];

/** Files that wait begin first, so that the others use the cores meanwhile and the run does not wait at its end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}

function place({ moduleId }: TestSpecification): number {
  const at = longest.findIndex((path) => moduleId.startsWith(`${import.meta.dirname}/${path}`));
  return at < 0 ? longest.length : at;
}
