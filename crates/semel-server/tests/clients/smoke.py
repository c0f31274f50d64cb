"""A job's way through the client that was generated: `smoke.py URL TOKEN`."""

import sys

from semel_client import AuthenticatedClient
from semel_client.api.claims import claims_claim, claims_settle
from semel_client.api.jobs import jobs_show, submit_one
from semel_client.api.keys import keys_list
from semel_client.models import Claim, Outcome, Problem, Settle, SettleResult, Settlement, State, Submission

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])


def submit(amount):
    body = Submission(task="charge", input_={"amount": amount}, idempotency_key="ORD-1")
    return submit_one.sync(client=client, body=body)


first = submit(1)
assert first.outcome is Outcome.ACCEPTED, first
again = submit(1)
assert again.outcome is Outcome.DUPLICATE and again.job.id == first.job.id, again
conflict = submit(2)
assert isinstance(conflict, Problem) and conflict.code == "idempotency_conflict", conflict
assert conflict.differs == ["/amount"] and conflict.holder.id == first.job.id, conflict

claims = claims_claim.sync(client=client, body=Claim(worker="w1", max_=1, lease_ms=30_000)).claims
assert [claim.job.id for claim in claims] == [first.job.id], claims
settlement = Settlement(
    id=first.job.id, fence=claims[0].fence, result=SettleResult.COMPLETE, output={"paid": True}
)
settled = claims_settle.sync(client=client, body=Settle(settlements=[settlement]))
assert settled.results[0].state is State.COMPLETE, settled

job = jobs_show.sync(first.job.id, client=client)
assert job.state is State.COMPLETE and job.output == {"paid": True}, job
keys = keys_list.sync(client=client, text="ORD-1", state="all")
assert keys.items[0].absorbed == 2, keys
