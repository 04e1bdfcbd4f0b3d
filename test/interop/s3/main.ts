import { messageOf } from "../../../src/foundation/errors.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, reportOutcomes } from "../agent/outcome-table.ts";
import { fromGoProxy } from "../software.ts";
import { startGateway } from "./gateway.ts";
import { playLog } from "./log.ts";
import { playReplicas } from "./replicas.ts";
import { scenes } from "./scenes.ts";

/** The records of `rampart serve` in a real S3-compatible service. */
const names = { client: 'STORE = "s3"', server: "versitygw" };
const outcomes: Outcome[] = [];
const software = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");

if ("missing" in software) {
  const what = "every promise of the store";
  outcomes.push({ ...names, what, result: "NOT RUN", detail: software.missing });
} else {
  const folder = await lastingFolder();
  const gateway = await startGateway(software.program, folder);
  const stories = [
    ["replicas of the program", playReplicas],
    ["an issuance log of three replicas", playLog],
  ] as const;
  for (const [what, play] of [...scenes, ...stories]) {
    outcomes.push(
      await play({ gateway, folder }).then(
        (detail) => ({ ...names, what, result: "ok" as const, detail }),
        (error) => ({ ...names, what, result: "FAILED" as const, detail: messageOf(error) }),
      ),
    );
  }
  await gateway.end();
}
reportOutcomes(outcomes);
