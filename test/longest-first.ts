import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths under `test`: what takes longest, most of it waiting or on one core. */
const longest = [
  "e2e/",
  "node/http/certificate-service",
  "node/limits/",
  "node/serve/",
  "agent/stories/",
  "agent/identity/certificate-client",
  "kubernetes/pod-watch",
  "agent/trust/own-bundle",
  "agent/secrets/",
  "cli/verbs/run/",
  "node/",
  "simulation/",
  "pki/public-vectors",
  "transport/http/",
  "custody/key-service/service-root",
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
