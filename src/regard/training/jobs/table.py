"""Which job serves which task."""

from regard.training.config import TaskName
from regard.training.jobs.answering import Answering
from regard.training.jobs.captioning import Captioning
from regard.training.jobs.classification import Classification
from regard.training.jobs.job import Job
from regard.training.jobs.language import Language
from regard.training.jobs.masked import MaskedWords
from regard.training.jobs.recognition import Recognition
from regard.training.jobs.tagging import Tagging
from regard.training.jobs.translation import Translation

JOBS: dict[TaskName, type[Job]] = {
    "translate": Translation,
    "classify": Classification,
    "tag": Tagging,
    "answer": Answering,
    "fill": MaskedWords,
    "generate": Language,
    "recognise": Recognition,
    "caption": Captioning,
}
