"""What is told of the host in the check-up: findings, and facts of the environment."""

from collections.abc import Iterator

from traceanalyzer.checkup.environment import Told, told_by_files
from traceanalyzer.checkup.host.nccl import nccl_findings
from traceanalyzer.checkup.host.topology import topology_facts, topology_findings
from traceanalyzer.checkup.host.workers import core_findings
from traceanalyzer.checkup.job import Job
from traceanalyzer.passes.answer import Finding

_GIVEN = {"workers": "--workers", "cpus": "--cpus"}


def host_findings(job: Job) -> list[Finding]:
    """Findings about the host of a job; none has a cost, for what they cost is in the verdicts."""
    return [*core_findings(job), *topology_findings(job), *_instances(job), *nccl_findings(job)]


def host_facts(job: Job) -> list[Told]:
    """Facts of the environment that are worked out: cores that were named, loader workers, topology."""
    out = [Told(source, fact, value) for fact, value, source in topology_facts(job.scope)]
    if job.given.cpus is not None:
        out.append(Told(_GIVEN["cpus"], "cpus_allowed", job.given.cpus))
    for host in job.hosts:
        if host.workers is not None:
            each = host.workers_per_rank
            several = each is not None and host.ranks > 1
            value = f"{host.workers} ({host.ranks} ranks x {each})" if several else f"{host.workers}"
            out.append(Told(_GIVEN["workers"] if host.source == "given" else "nsys", "loader_workers", value))
    return out


def _instances(job: Job) -> Iterator[Finding]:
    """Finding `mig`: what is told of a card is not of the slice that the job has."""
    modes = [str(each.value) for each in told_by_files(job.scope) if each.fact == "mig_mode"]
    if any(mode.strip().lower() in ("enabled", "1", "on") for mode in modes):
        command = job.command("checkup --table environment")
        yield Finding("mig", job.messages.text("mig.text", command=command))
