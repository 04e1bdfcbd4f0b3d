import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMoto } from "../moto.ts";
import { notRun, type Outcome, playRows, reportOutcomes } from "../outcome-table.ts";
import { startVault } from "../own-root/vault.ts";
import { fromGoModule, python } from "../software.ts";
import { scenesOf } from "./scenes.ts";
import { type RealService, realAws, realTransit, withLogins } from "./services.ts";

/** A KEK and a root in real key services. */
const outcomes: Outcome[] = [];

/** Opens keys of a real service. */
type OpenService = () => Promise<RealService>;

const row = { client: "keys in a key service" };

async function play(server: string, open: OpenService): Promise<void> {
  const service = await open();
  const rows = scenesOf(service).map(([what, scene]) => [what, () => scene(service)] as const);
  outcomes.push(...(await playRows({ ...row, server }, rows)));
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
    outcomes.push(notRun({ ...row, server, what: "all" }, software.missing));
}
if ("program" in vault) {
  const started = await startVault(vault.program, folder);
  const logins = await fromGoModule(join(import.meta.dirname, "../jwt/vault"), "vault-jwt");
  services.push([
    "transit of Vault 1.14",
    async () => {
      const service = await realTransit(started);
      if ("program" in logins) return withLogins(service, started, { ...logins, folder });
      outcomes.push(
        notRun({ ...row, server: "transit of Vault 1.14", what: "logins" }, logins.missing),
      );
      return service;
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
for (const end of ends) await end();
reportOutcomes(outcomes);
process.exit();
