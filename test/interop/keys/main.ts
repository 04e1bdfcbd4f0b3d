import { join } from "node:path";
import { messageOf } from "../../../src/foundation/errors.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, reportOutcomes } from "../agent/outcome-table.ts";
import { startVault } from "../own-root/vault.ts";
import { fromGoModule, python } from "../software.ts";
import { scenes } from "./scenes.ts";
import { type RealService, realAws, realTransit } from "./services.ts";

/** A KEK and a root in real key services. */
const outcomes: Outcome[] = [];

async function play(server: string, service: RealService | { missing: string }): Promise<void> {
  for (const [what, scene] of scenes) {
    const row = { client: "keys in a key service", server, what };
    if ("missing" in service) {
      outcomes.push({ ...row, result: "NOT RUN", detail: service.missing });
      continue;
    }
    outcomes.push(
      await scene(service).then(
        (detail) => ({ ...row, result: "ok" as const, detail }),
        (error) => ({ ...row, result: "FAILED" as const, detail: messageOf(error) }),
      ),
    );
  }
}

const folder = await lastingFolder();
const engines = join(import.meta.dirname, "../own-root/vault-pki");
const vault = await fromGoModule(engines, "vault-pki");
if ("missing" in vault) await play("transit of Vault 1.14", vault);
else {
  const started = await startVault(vault.program, folder);
  await play("transit of Vault 1.14", await realTransit(started));
  await started.end();
}
const moto = await python("moto", ["moto[server]==5.2.5"]);
if ("missing" in moto) await play("AWS KMS of moto 5.2", moto);
else {
  const { service, end } = await realAws(moto.program, folder);
  await play("AWS KMS of moto 5.2", service);
  await end();
}
reportOutcomes(outcomes);
