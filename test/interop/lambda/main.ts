import { dirname, join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMoto } from "../moto.ts";
import { installTools } from "../native-grpc/clients/clients.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { createTally } from "../native-grpc/play.ts";
import { scratchIn } from "../native-grpc/scratch.ts";
import { type Outcome, report } from "../outcomes.ts";
import { installPackage } from "../package/installation.ts";
import { startGateway } from "../s3/gateway.ts";
import { fromGoProxy, python } from "../software.ts";
import { playLambda, servedName } from "./scenes.ts";
import { deployAsWritten } from "./tutorial.ts";

const names = { client: "AWS SAM, a runtime API, curl, grpc-js", server: "AWS Lambda's handler" };

/** What `sam build` and `sam deploy` make of the tutorial's archive, in instances of a runtime API, on a real S3-compatible service. */
async function play(folder: string): Promise<Outcome> {
  const software = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
  const tools = await installTools(join(import.meta.dirname, "../istio-client"));
  if ("missing" in software) return { ...names, passed: 0, faults: [], ...software };
  const interpreter = await python("sam", ["aws-sam-cli==1.170.0"]);
  if ("missing" in interpreter) return { ...names, passed: 0, faults: [], ...interpreter };
  const cloud = await python("aws-sam", ["moto[server]==5.2.5", "aws-sam-translator==1.115.0"]);
  if ("missing" in cloud) return { ...names, passed: 0, faults: [], ...cloud };
  const sam = join(dirname(interpreter.program), "sam");
  await using ends = new AsyncDisposableStack();
  const installation = await installPackage(folder);
  const bucket = await startGateway(software.program, folder);
  const mesh = await startMesh(folder);
  const tally = createTally((line) => console.log(`lambda: ${line}`));
  try {
    const scratch = scratchIn(await lastingFolder());
    const aws = await startMoto(cloud.program, folder, join(import.meta.dirname, "aws.py"));
    ends.defer(async () => void (await aws.end()));
    const account = { sam, python: cloud.program, aws: aws.origin, bucket, mesh, servedName };
    const deployment = await deployAsWritten(await lastingFolder(), account, ends);
    await playLambda({ folder, installation, deployment, mesh, scratch, tools, tally });
    return { ...names, passed: tally.passed(), faults: tally.faults };
  } finally {
    await mesh.end();
    await bucket.end();
  }
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

report([await play(await lastingFolder())]);
process.exit();
