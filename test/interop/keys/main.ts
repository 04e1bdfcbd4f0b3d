import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMoto } from "../moto.ts";
import { type Outcome, playAll, playRows, reportOutcomes } from "../outcome-table.ts";
import { startVault } from "../own-root/vault.ts";
import { fromGoModule, python, required } from "../software.ts";
import { scenesOf } from "./scenes.ts";
import { type RealService, realAws, realTransit, withLogins } from "./services.ts";

const folder = await lastingFolder();

/** A KEK and a root in a real key service. */
function play(server: string, open: () => Promise<RealService>): Promise<Outcome[]> {
  const names = { client: "keys in a key service", server };
  return playAll(names, async () => {
    const service = await open();
    const outcomes = await playRows(names, scenesOf(service), service);
    await service.end();
    return outcomes;
  });
}

async function openTransit(): Promise<RealService> {
  const engines = fromGoModule(join(import.meta.dirname, "../own-root/vault-pki"), "vault-pki");
  const logins = fromGoModule(join(import.meta.dirname, "../jwt/vault"), "vault-jwt");
  const [engine, program] = [await required(engines), await required(logins)];
  const vault = await startVault(engine, folder);
  const service = await withLogins(await realTransit(vault), vault, { program, folder });
  return { ...service, end: () => service.end().then(async () => void (await vault.end())) };
}

async function openAws(): Promise<RealService> {
  const moto = await startMoto(await required(python("moto", ["moto[server]==5.2.5"])), folder);
  const service = await realAws(moto.origin, folder);
  return { ...service, end: () => service.end().then(async () => void (await moto.end())) };
}

reportOutcomes([
  ...(await play("transit of Vault 1.14", openTransit)),
  ...(await play("AWS KMS of moto 5.2", openAws)),
]);
process.exit();
