// A program in JavaScript that borrows from governor. There is no library for it and nothing to generate: the wire
// contract, governor.proto, is read at run time.
//
//   npm ci                                      once, in this folder (or `make node`, see README.md)
//   node client.js [RESOURCE [SECONDS]]         takes a permit, works for so long, gives it back
//
// The daemon is at GOVERNOR_ADDRESS (host:port or unix:/path), else at 127.0.0.1:7411.
'use strict';

const { randomUUID } = require('node:crypto');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const PROTO = path.join(__dirname, '../../../proto/governor/v1/governor.proto');
// Lease ids have 64 bits, more than a number of JavaScript keeps exactly: they are strings here.
const contract = protoLoader.loadSync(PROTO, { longs: String, enums: String, defaults: true });
const { governor } = grpc.loadPackageDefinition(contract);

// When the connection breaks, gRPC makes the call again, and not sooner than the daemon asks for. That is safe because
// of the request id: the same ask again finds its place in line, or the lease that it was granted.
const service = { service: 'governor.v1.Governor' };
const retryPolicy = {
  maxAttempts: 4,
  initialBackoff: '0.2s',
  maxBackoff: '2s',
  backoffMultiplier: 2,
  retryableStatusCodes: ['UNAVAILABLE'],
};
const stub = new governor.v1.Governor(
  process.env.GOVERNOR_ADDRESS || '127.0.0.1:7411',
  grpc.credentials.createInsecure(),
  { 'grpc.service_config': JSON.stringify({ methodConfig: [{ name: [service], retryPolicy }] }) },
);

/** One call, as a promise. Its deadline is for a daemon that hangs; it answers a wait that is over by itself. */
function call(method, request, seconds = 10) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + Math.round(1000 * seconds);
    stub[method](request, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

async function acquire(resource) {
  const answer = await call('Acquire', {
    claims: [{ resource, permits: 1 }],
    client: 'node-example',
    requestId: randomUUID(),
    wait: { seconds: 30 },
  }, 60);
  return answer.lease;
}

/** Renews every third of the lease for as long as it is held. Says why, if it is lost. */
async function keep(lease, held) {
  const length = milliseconds(lease.remaining);
  let end = Date.now() + length;
  for (;;) {
    await pause(length / 3, held);
    if (held.signal.aborted) return null;
    const sent = Date.now();
    try {
      await call('Renew', { leaseIds: [lease.id] }, length / 3000);
      end = sent + length;
    } catch (error) {
      // Ended, or unknown; or the daemon has been silent for so long that the lease ends before another try.
      const over = [grpc.status.FAILED_PRECONDITION, grpc.status.NOT_FOUND].includes(error.code);
      if (over || Date.now() + length / 2 > end) return error.details;
    }
  }
}

/** Works while the lease is held: who goes on without it works beside its next holder. Says why, if it was lost. */
async function work(lease, seconds) {
  const held = new AbortController();
  const end = () => held.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  console.log(`lease ${lease.id}: ${lease.grants.map((grant) => `${grant.permits} of ${grant.resource}`)}`);
  // A grant of a rate limit is spent, not lent: it does not end, so there is nothing to keep.
  const kept = lease.remaining ? keep(lease, held).finally(end) : null;
  await pause(1000 * seconds, held);
  end();
  return kept;
}

async function release(lease) {
  try {
    await call('Release', { leaseIds: [lease.id], outcome: 'OUTCOME_OK' });
    console.log(`released lease ${lease.id}`);
  } catch (error) {
    // Nothing is lost by it but time: the lease ends by itself.
    console.error(`not released: ${error.details}`);
  }
}

function pause(length, held) {
  return sleep(length, null, { signal: held.signal }).catch(() => {});
}

function milliseconds({ seconds, nanos }) {
  return 1000 * Number(seconds) + nanos / 1e6;
}

async function main(resource = 'thumbnails', seconds = '5') {
  let lease;
  try {
    lease = await acquire(resource);
  } catch (error) {
    // "Never" and "not now" have different codes; the details are a sentence that says what, and when if it is known.
    console.error(`refused: ${grpc.status[error.code]}: ${error.details}`);
    const [after] = error.metadata?.get('grpc-retry-pushback-ms') ?? [];
    if (after) console.error(`worth another try in ${after} ms`);
    return 1;
  }
  const lost = await work(lease, Number(seconds));
  if (lost) {
    console.error(`lost: ${lost}`);
    return 1;
  }
  if (lease.remaining) await release(lease);
  return 0;
}

main(...process.argv.slice(2)).then((code) => {
  stub.close();
  process.exitCode = code;
});
