import { dirname, join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMoto } from "../moto.ts";
import { installTools } from "../native-grpc/clients/clients.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { createTally } from "../native-grpc/play.ts";
import { createScratch } from "../native-grpc/scratch.ts";
import { type Outcome, played, report } from "../outcomes.ts";
import { installPackage } from "../package/installation.ts";
import { startGateway, versityGateway } from "../s3/gateway.ts";
import { python, required } from "../software.ts";
import { playLambda } from "./scenes.ts";
import { deployAsWritten } from "./tutorial.ts";

const names = { client: "AWS SAM, a runtime API, curl, grpc-js", server: "AWS Lambda's handler" };

/** What `sam build` and `sam deploy` make of the tutorial's archive, in instances of a runtime API, on a real S3-compatible service. */
async function play(folder: string): Promise<Pick<Outcome, "passed" | "faults">> {
  const gateway = await required(versityGateway());
  const tools = await installTools();
  const interpreter = await required(python("sam", ["aws-sam-cli==1.170.0"]));
  const packages = ["moto[server]==5.2.5", "aws-sam-translator==1.115.0"];
  const cloud = await required(python("aws-sam", packages));
  const sam = join(dirname(interpreter), "sam");
  await using ends = new AsyncDisposableStack();
  const installation = await installPackage(folder);
  const bucket = await startGateway(gateway, folder);
  ends.defer(async () => void (await bucket.end()));
  const mesh = await startMesh(folder);
  ends.defer(() => mesh.end());
  const tally = createTally((line) => console.log(`lambda: ${line}`));
  const scratch = await createScratch();
  const aws = await startMoto(cloud, folder, join(import.meta.dirname, "aws.py"));
  ends.defer(async () => void (await aws.end()));
  const account = { sam, python: cloud, aws: aws.origin, bucket, mesh };
  const deployment = await deployAsWritten(await lastingFolder(), account, ends);
  await playLambda({ folder, installation, deployment, mesh, scratch, tools, tally });
  return { passed: tally.passed(), faults: tally.faults };
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

report([await played(names, async () => play(await lastingFolder()))]);
process.exit();
