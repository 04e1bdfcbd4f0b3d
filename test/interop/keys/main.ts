import { join } from "node:path";
import { messageOf } from "../../../src/foundation/errors.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, reportOutcomes } from "../agent/outcome-table.ts";
import { startMoto } from "../moto.ts";
import { startVault } from "../own-root/vault.ts";
import { fromGoModule, python } from "../software.ts";
import { leafSeconds } from "./mesh.ts";
import { onServe, onWorkers, type StagedCa, startWorkers } from "./platforms.ts";
import { scenes } from "./scenes.ts";
import { type RealService, realAws, realTransit, withLogins } from "./services.ts";
import { playStory, type Tell } from "./story.ts";

/** A KEK and a root in real key services. */
const outcomes: Outcome[] = [];

/** Opens keys of a real service for a story of this name. */
type OpenService = (story: string) => Promise<RealService>;

/** The name of the story that the scenes are. */
const forScenes = "scenes";

const row = { client: "keys in a key service" };

async function tellRow(
  names: Pick<Outcome, "server" | "what">,
  work: () => Promise<string | undefined>,
) {
  const outcome = await work().then(
    (detail) =>
      detail === undefined
        ? { result: "NOT RUN" as const, detail: "the program of the login is missing" }
        : { result: "ok" as const, detail },
    (error) => ({ result: "FAILED" as const, detail: messageOf(error) }),
  );
  outcomes.push({ ...row, ...names, ...outcome });
  return outcome.result === "ok";
}

async function play(server: string, open: OpenService): Promise<void> {
  const service = await open(forScenes);
  for (const [what, scene] of scenes) await tellRow({ server, what }, () => scene(service));
  await service.end();
}

/** A story ends with its first scene that fails: the next would begin elsewhere. */
async function playOn(platform: string, server: string, open: OpenService, ca: StagedCa) {
  const service = await open(platform.replace(/\W/g, ""));
  const tell: Tell = async (scene, work) => {
    const names = { server: `${server}, ${platform}`, what: scene };
    if (!(await tellRow(names, work))) throw new Error(`the story of ${platform} ends early`);
  };
  await playStory(service, ca, join(folder, server, platform), tell).catch(console.error);
  await ca.end();
  await service.end();
}

const folder = await lastingFolder();
const engines = join(import.meta.dirname, "../own-root/vault-pki");
const services: [string, OpenService][] = [];
const ends: (() => Promise<unknown>)[] = [];

const vault = await fromGoModule(engines, "vault-pki");
const moto = await python("moto", ["moto[server]==5.2.5"]);
for (const [server, software] of [
  ["transit of Vault 1.14", vault],
  ["AWS KMS of moto 5.2", moto],
] as const) {
  if ("missing" in software)
    outcomes.push({ ...row, server, what: "all", result: "NOT RUN", detail: software.missing });
}
if ("program" in vault) {
  const started = await startVault(vault.program, folder);
  const logins = await fromGoModule(join(import.meta.dirname, "../jwt/vault"), "vault-jwt");
  services.push([
    "transit of Vault 1.14",
    async (story) => {
      const service = await realTransit(started, story);
      if (story !== forScenes || "missing" in logins) return service;
      return withLogins(service, started, { ...logins, folder });
    },
  ]);
  ends.push(started.end);
}
if ("program" in moto) {
  const { origin, end } = await startMoto(moto.program, folder);
  services.push(["AWS KMS of moto 5.2", () => realAws(origin, folder)]);
  ends.push(end);
}
for (const [server, open] of services) await play(server, open);
const workers = await startWorkers(services.length);
for (const [server, open] of services) {
  await Promise.all([
    playOn("Worker", server, open, onWorkers(workers)),
    playOn("serve", server, open, await onServe(leafSeconds)),
  ]);
}
await workers.close();
for (const end of ends) await end();
reportOutcomes(outcomes);
process.exit();
