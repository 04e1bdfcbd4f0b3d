import { join } from "node:path";
import { openFileStore } from "../../src/node/files/file-store.ts";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import { describeWithdrawal } from "../contract/withdrawal/withdrawal.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

describeWithdrawal(async () => {
  const folder = await temporaryFolder();
  return {
    own: await openFileStore(join(folder, "own")),
    signer: await openFileStore(join(folder, "signer")),
  };
}, nodeCryptoProvider);
