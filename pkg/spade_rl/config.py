"""The configuration of a run, typed, checked before anything starts; ``config_files`` reads and writes it.

Importing this module loads neither torch nor transformers. Unknown keys are refused, and so is every combination
that could not be honoured: no count is ever changed silently.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spade_rl.kinds import EnvironmentKind
from spade_rl.prompts import PromptStyle

GAME_SKILLS = (
    "mathematical reasoning",
    "logical deduction",
    "spatial reasoning",
    "pattern recognition",
    "optimization",
    "causal inference",
)
TOOL_SKILLS = (
    "API orchestration",
    "data retrieval",
    "state modification",
    "error recovery",
    "tool selection",
    "multi-step workflows",
)


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSection(Section):
    """The run as a whole."""

    seed: int = Field(0, ge=0, description="Every random decision of the run derives from it.")
    start: bool = Field(
        True,
        description="A coordinator that is a process of its own begins the run of its configuration; off: it waits for one that is submitted.",
    )
    cycles: int = Field(400, ge=1, description="Cycles of design, play and learning.")
    minutes: float | None = Field(None, gt=0, description="Stop after the cycle in which this time is over.")
    checkpoint_every: int = Field(1, ge=1, description="Cycles between checkpoints.")
    stage_seconds: float = Field(7200.0, gt=0, description="Deadline of one stage of a cycle.")
    empty_sets: int = Field(
        8, ge=1, description="The run fails after so many sets in a row without a valid environment."
    )
    keep_checkpoints: int = Field(2, ge=1, description="Checkpoints that are kept.")
    recoveries: int = Field(
        20,
        ge=0,
        description="How often in a row, without a cycle in between, a coordinator that is a process of its own goes back to its last checkpoint.",
    )


class ModelSection(Section):
    """The policy."""

    name: str = Field("nano", description="`nano`, a folder in Hugging Face format, or a model's name on the hub.")
    prompts: PromptStyle = Field(PromptStyle.FULL, description="How much the prompts explain.")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Number format of the weights.")


class GroundingSection(Section):
    """The documents that environments are made from."""

    corpus: str = Field("sample", description="`sample`, a JSONL(.gz) or Parquet file, a folder of them, or `hf:NAME`.")
    split: str = Field("train", description="Split of a Hugging Face data set.")
    text_field: str | None = Field(None, description="Field that holds the text; by default `text`, else `orig_doc`.")
    words: int = Field(6000, ge=4, description="Words of a document that the designer is shown.")
    enabled: bool = Field(True, description="Off: the designer is shown no document (an ablation).")


class DesignerSection(Section):
    """The Environment Designer."""

    kind: EnvironmentKind = Field(EnvironmentKind.GAME, description="How its environments are played.")
    skills: tuple[str, ...] = Field(
        GAME_SKILLS,
        min_length=1,
        description="What environments may train; one is named in every prompt. Of `kind: tool_use`, by default: "
        f"{', '.join(TOOL_SKILLS)}.",
    )
    active_skills: int = Field(3, ge=1, description="Skills in one set, round robin.")
    environments: int = Field(24, ge=1, description="Environments in one set.")
    attempts: int = Field(5, ge=1, description="Attempts at one environment.")
    repair: bool = Field(False, description="Show a refused attempt's verdict to the next attempt.")
    temperature: float = Field(0.6, ge=0, description="Of the designs; 0 is greedy.")
    max_tokens: int = Field(16384, ge=1, description="Tokens of one design.")
    hint_temperature: float = Field(0.3, ge=0, description="Of the hints.")
    hint_max_tokens: int = Field(1024, ge=1, description="Tokens of one hint.")
    positive_seeds: int = Field(2, ge=0, le=16, description="Earlier learnable environments that a prompt shows.")
    negative_seeds: int = Field(1, ge=0, le=16, description="Earlier environments that a prompt warns of.")
    invalid_reward: float | None = Field(
        None, description="Reward of a refused attempt; unset, refused attempts are kept but not trained on."
    )
    trained: bool = Field(True, description="Off: the designer is frozen (an ablation).")

    @model_validator(mode="before")
    @classmethod
    def _skills_of_the_kind(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("kind") == EnvironmentKind.TOOL_USE:
            return {"skills": TOOL_SKILLS, **data}
        return data

    @model_validator(mode="after")
    def _whole_sets(self) -> DesignerSection:
        if len(set(self.skills)) != len(self.skills):
            raise ValueError("designer.skills names a skill twice")
        if self.active_skills > len(self.skills):
            raise ValueError(f"designer.active_skills is {self.active_skills}, but there are {len(self.skills)} skills")
        if self.environments % self.active_skills:
            raise ValueError(
                f"designer.environments ({self.environments}) must be a multiple of designer.active_skills "
                f"({self.active_skills}), so that every active skill gets the same number"
            )
        return self


class Isolation(StrEnum):
    """How generated code is kept apart, strongest first."""

    GVISOR = "gvisor"
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


class SandboxSection(Section):
    """Where generated code runs."""

    isolation: Isolation = Field(
        Isolation.GVISOR, description="Anything but gvisor is weaker, and every output says so."
    )
    runtime: Literal["auto", "runsc", "pod"] = Field(
        "auto",
        description="How gVisor is had: the service starts runsc, or itself runs under gVisor, as a pod; auto finds out. "
        "With pod it refuses to serve where it is not so.",
    )
    platform: Literal["auto", "systrap", "ptrace", "kvm"] = Field("auto", description="gVisor's platform, under runsc.")
    call_seconds: float = Field(2.0, gt=0, description="Deadline of one reset or step in the environment's code.")
    episode_seconds: float = Field(600.0, gt=0, description="An episode's worker ends after this time.")
    admission_seconds: float = Field(30.0, gt=0, description="Deadline of the whole admission of one source.")
    worker_memory_mb: int = Field(512, ge=64, description="Address space of one worker.")
    sandbox_memory_mb: int = Field(1024, ge=128, description="Memory of one sandbox with all its workers.")
    worker_processes: int = Field(16, ge=1, description="Processes and threads of one worker.")
    worker_cpu_seconds: int = Field(120, ge=1, description="CPU time of one process of a worker.")
    max_observation_bytes: int = Field(65536, ge=64, description="A longer observation is the environment's fault.")
    max_info_bytes: int = Field(65536, ge=64, description="A longer info, as JSON, is the environment's fault.")
    max_solution_steps: int = Field(256, ge=1, description="Actions that `solution()` may return.")
    max_sandboxes: int = Field(32, ge=1, description="Live sandboxes; the least recently used idle one makes room.")
    idle_seconds: float = Field(1800.0, gt=0, description="A sandbox that nobody has used for so long ends.")
    memory_mb: int | None = Field(
        None, ge=128, description="Memory of all sandboxes beyond which idle ones end, those unused longest first."
    )
    max_workers: int = Field(256, ge=2, description="Live episodes (an admission counts as two); more wait.")
    prefork: int = Field(
        4,
        ge=0,
        description="Workers that wait in a warm sandbox for its next episodes, at most; as many as recent use asks for.",
    )
    queue_seconds: float = Field(120.0, gt=0, description="How long an episode waits for a worker.")
    reachable_seconds: float = Field(
        300.0,
        gt=0,
        description="How long callers wait for a sandbox service that answers: one that scales up from none.",
    )
    replay_share: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Share of episodes that are played again before their end is told; they must repeat.",
    )
    drain_seconds: float = Field(30.0, ge=0, description="How long running episodes may go on after SIGTERM.")
    self_test: bool = Field(
        True, description="Exceed the limits on purpose before serving, and refuse to serve if one does not hold."
    )


class EngineSection(Section):
    """The inference engine."""

    kind: Literal["transformers"] = Field("transformers", description="What samples from the policy.")
    slots: int = Field(128, ge=1, description="Sequences that are decoded at once.")
    context_tokens: int = Field(32768, ge=16, description="Longest sequence, prompt and reply together.")
    threads: int | None = Field(None, ge=1, description="Threads of torch on a CPU; unset, torch decides.")


class AgentSection(Section):
    """The Reasoning Agent."""

    temperature: float = Field(0.6, ge=0, description="Of the replies; 0 is greedy.")
    max_tokens: int = Field(8192, ge=1, description="Tokens of one reply.")
    max_turns: int = Field(25, ge=1, description="Turns of one episode.")
    history_turns: int | None = Field(
        None, ge=0, description="Earlier turns that the agent sees; unset, all; 0, the latest observation only."
    )
    concurrency: int = Field(128, ge=1, description="Episodes in flight.")
    reply_seconds: float = Field(600.0, gt=0, description="Deadline of one reply of the engine.")
    retries: int = Field(1, ge=0, description="How often an episode is played again when the sandbox or engine failed.")
    engine: EngineSection = EngineSection()


class RegretSection(Section):
    """Paired plays and the designer's reward."""

    plays: int = Field(16, ge=1, description="G: plays in each arm, exactly.")
    reward: Literal["blend", "regret", "solve_rate", "learning_potential"] = Field(
        "blend", description="What pays the designer."
    )
    window: int = Field(4, ge=1, description="k: cycles in which an environment is played.")


class MemorySection(Section):
    """The archive."""

    url: str | None = Field(None, description="SQLAlchemy URL; unset, SQLite in the run's folder.")
    url_file: str | None = Field(None, description="File that holds the URL: a password does not belong here.")
    learnable: tuple[float, float] = Field((0.15, 0.85), description="Win rates of positive seeds.")
    recent: int = Field(200, ge=1, description="Newest closed environments that seeds are drawn from.")
    enabled: bool = Field(True, description="Off: the designer is shown no seeds (an ablation).")

    @model_validator(mode="after")
    def _one_url(self) -> MemorySection:
        if self.url is not None and self.url_file is not None:
            raise ValueError("memory.url and memory.url_file exclude each other")
        return self


class LearnerSection(Section):
    """The update."""

    engine: Literal["torch", "deepspeed"] = Field("torch", description="What computes the update.")
    learning_rate: float = Field(1e-6, gt=0, description="Of Adam; constant.")
    betas: tuple[float, float] = Field((0.9, 0.98), description="Adam's decay rates.")
    weight_decay: float = Field(0.1, ge=0, description="Decoupled, as in AdamW.")
    gradient_clip: float = Field(1.0, gt=0, description="Largest norm of the gradient.")
    loss: Literal["ppo", "dppo_tv", "cispo", "gspo", "reinforce"] = Field(
        "ppo", description="How a token's new probability is weighed against the sampler's."
    )
    clip_low: float = Field(0.2, ge=0, description="How far the ratio may fall below 1 before it is clipped.")
    clip_high: float = Field(0.28, ge=0, description="How far the ratio may rise above 1 before it is clipped.")
    importance_cap: float = Field(2.0, gt=0, description="Cap of the truncated importance weight.")
    agent_weight: float = Field(1.0, ge=0, description="Weight of the agent's loss.")
    designer_weight: float = Field(1.0, ge=0, description="Weight of the designer's loss.")
    normalise_advantage: bool = Field(False, description="Divide the agent's advantages by their deviation.")
    designer_scale_cap: float = Field(50.0, gt=0, description="Cap of the scale of the designer's advantages.")
    kl: float = Field(0.0, ge=0, description="Weight of the divergence from the starting policy.")
    entropy: float = Field(0.0, ge=0, description="Weight of the entropy bonus.")
    epochs: int = Field(
        1, ge=1, description="Passes over the samples of one update; from the second on the loss's clip bounds them."
    )
    steps: int = Field(1, ge=1, description="Optimizer steps of one update; samples are dealt out among them.")
    micro_tokens: int = Field(16384, ge=64, description="Tokens in one forward and backward pass, padding included.")
    zero_stage: Literal[0, 1, 2, 3] = Field(1, description="DeepSpeed's ZeRO stage.")
    collective_seconds: float = Field(
        600.0, gt=0, description="Deadline of one exchange between the processes of the learner."
    )
    threads: int | None = Field(None, ge=1, description="Threads of torch on a CPU; unset, torch decides.")
    keep_versions: int = Field(2, ge=1, description="Published versions that are kept.")


class EvaluationSection(Section):
    """The held-out measurement before and after a run."""

    suite: Literal["none", "nano"] = Field(
        "none", description="Which instances are played; `nano` is made for the nano model's prompts."
    )
    temperature: float = Field(1.0, ge=0, description="Of the replies in the measurement.")


class Endpoints(Section):
    """gRPC targets of the services; all unset, they run in one process over Unix sockets."""

    designer: str | None = Field(None, description="Address of the designer service.")
    sandbox: str | None = Field(None, description="Address of the sandbox service.")
    agent: str | None = Field(None, description="Address of the agent service.")
    inference: str | None = Field(None, description="Address of the inference service.")
    regret: str | None = Field(None, description="Address of the regret service.")
    memory: str | None = Field(None, description="Address of the memory service.")
    learner: str | None = Field(None, description="Address of the learner service.")
    coordinator: str | None = Field(None, description="Address of the coordinator service.")


class TlsSection(Section):
    """Certificates of the services, where they are processes of their own."""

    mode: Literal["local", "mutual", "off"] = Field(
        "local",
        description="`local`: plain, and only over loopback and Unix sockets. `mutual`: both sides show a certificate. `off`: plain everywhere.",
    )
    folder: str | None = Field(
        None, description="Folder with `tls.crt`, `tls.key` and `ca.crt` (PEM); renewed files are taken at once."
    )

    @model_validator(mode="after")
    def _has_files(self) -> TlsSection:
        if (self.mode == "mutual") is not (self.folder is not None):
            raise ValueError("tls.folder and tls.mode: mutual need each other")
        return self


class RunConfig(Section):
    """Everything that a run is told."""

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    grounding: GroundingSection = GroundingSection()
    designer: DesignerSection = DesignerSection()
    sandbox: SandboxSection = SandboxSection()
    agent: AgentSection = AgentSection()
    regret: RegretSection = RegretSection()
    memory: MemorySection = MemorySection()
    learner: LearnerSection = LearnerSection()
    evaluation: EvaluationSection = EvaluationSection()
    endpoints: Endpoints = Endpoints()
    tls: TlsSection = TlsSection()

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.agent.max_tokens >= self.agent.engine.context_tokens:
            raise ValueError(
                f"agent.max_tokens ({self.agent.max_tokens}) must leave room in agent.engine.context_tokens "
                f"({self.agent.engine.context_tokens}) for the prompt"
            )
        if self.designer.max_tokens >= self.agent.engine.context_tokens:
            raise ValueError(
                f"designer.max_tokens ({self.designer.max_tokens}) must leave room in agent.engine.context_tokens "
                f"({self.agent.engine.context_tokens}) for the prompt"
            )
        turns = self.agent.history_turns
        if self.designer.kind is EnvironmentKind.TOOL_USE and turns is not None and turns < self.agent.max_turns - 1:
            raise ValueError(
                f"agent.history_turns ({turns}) would hide the tools, which stand in the first observation: unset it for "
                "designer.kind tool_use"
            )
        low, high = self.memory.learnable
        if not -1 <= low < high <= 1:
            raise ValueError(f"memory.learnable must be two rising win rates, not {low} and {high}")
        if self.evaluation.suite == "nano" and self.model.prompts is not PromptStyle.COMPACT:
            raise ValueError("evaluation.suite: nano needs model.prompts: compact, which its instances are made for")
        return self
