import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths under `test`: what takes longest, most of it waiting or on one core. */
const longest = [
  "e2e/",
  "simulation/",
  "worker/",
  "agent/bad-days",
  "node/distribute",
  "node/watched-pods",
  "agent/bundle-poll",
  "node/certificate-service",
  "node/processes",
  "transport/certificate-service",
  "cli/backup",
  "cli/deployment",
  "node/recurring-push",
  "node/rotation",
];

/** What waits begins first: the rest has the cores meanwhile, and at the end nothing is waited for. */
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
